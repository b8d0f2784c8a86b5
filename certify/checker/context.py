"""What the claims of one report share: the states or the user's program, and every analysis, made once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import inf, nextafter
from typing import Any

from certify.checker.document import FILE, Beyond, Rejected, shown
from certify.checker.finding import Finding
from certify.checker.graph_file import from_file
from certify.checker.program import Program, inputs_of, polyprox
from certify.checker.rounding import FORMATS, Analysis, running
from certify.checker.saved import Saved, State, States

Claim = dict[str, Any]
Check = Callable[[Claim, "Context"], Finding]
MOST_WORK = 1_000_000_000  # scalar operations analysed for one report: half an hour


class Context:
    """What the claims of one report share; every analysis is made once."""

    def __init__(self, subject: Any, claims: dict[str, Claim], saved: Saved, files: Callable[[str], bytes]) -> None:
        self.subject, self.claims, self.saved, self.files = subject, claims, saved, files
        self.case = subject.get("case")
        self.cache: dict[Any, Any] = {}
        self.findings: dict[str, Finding | None] = {}
        self.work, self.several = 0, False
        if self.case == "polyprox":
            self.states = States(saved)
            self.states.require_subject(subject)
            self.several = self.states.count > 1
        elif self.case == "kernel":
            self.kernel = self._kernel()
        else:
            raise Beyond(f"the case {shown(self.case)} is unknown to this checker")

    def _kernel(self) -> Program:
        """The user's program, from the file that the subject names; its inputs are tensors of the state file."""
        subject, tensors = self.subject, self.saved.tensors
        graph = subject.get("graph")
        if set(subject) != {"case", "kernel", "graph", "tensors"} or not isinstance(subject["kernel"], str):
            raise Rejected("the subject of the report does not say which kernel and inputs it is about")
        if not isinstance(graph, dict) or set(graph) != {"file", "sha256"}:
            raise Rejected("the subject of the report names no graph file")
        if subject["tensors"] != {name: tensor.digest() for name, tensor in tensors.items()}:
            raise Rejected("the digests of the subject are not those of the input file")
        program = from_file(self.file(graph["file"], graph["sha256"]))
        for name, shape in program.shapes.items():
            if name not in tensors or tensors[name].shape != shape:
                raise Rejected(f"the input file has no tensor {shown(name)} of the shape in the graph file")
        return program

    def file(self, name: Any, sha256: Any) -> bytes:
        """The bytes of a file beside the report, if they are the ones it means."""
        if not isinstance(name, str) or FILE.fullmatch(name) is None:
            raise Rejected(f"{shown(name)} is no plain file name")
        data: bytes = self.files(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Rejected(f"the file {name} is not the one that the report names: its digest differs")
        return data

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object of this key, made once."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def state(self, k: Any) -> State:
        """State k of the file."""
        if self.case != "polyprox":
            raise Rejected("the report is about a kernel, which has no states")
        state: State = self.cached(("state", repr(k)), lambda: self.states.state(k))
        return state

    def program(self, state: State) -> Program:
        """The block for this mask, b and capacity."""
        key = ("program", str(state.M), state.b, state.N)
        program: Program = self.cached(key, lambda: polyprox(state.M, state.b, state.N))
        return program

    def running(self, state: State, format: str, radius: float = 0.0) -> Analysis:
        """Running error bounds of the block for every W with the mask within `radius` of that of the state."""
        program = self.program(state)
        return self.analysis(running, program, format, inputs_of(program, state), "W", radius)

    def analysis(
        self, method: Any, program: Program, format: str, values: list[float], center: str, radius: float
    ) -> Analysis:
        """Error bounds on the box around a ball: its ends lie one step beyond the rounded ones."""
        before = 0
        for name, support in program.inputs.items():
            if name == center:
                break
            before += len(support)
        stop = before + len(program.inputs[center]) if radius else before
        ends = [
            values[:before] + [nextafter(x + side * radius, side * inf) for x in values[before:stop]] + values[stop:]
            for side in (-1, 1)
        ]

        def make() -> Analysis:
            self.work += program.operations
            if self.work > MOST_WORK:
                raise Beyond("the report asks for more work than a checker does")
            made: Analysis = method(program, FORMATS[format], *ends)
            return made

        key = (method.__name__, id(program), format, center, radius, tuple(values))
        found: Analysis = self.cached(key, make)
        return found

    def proved(self, name: Any) -> Claim:
        """A certified claim of this report, after checking it."""
        claim = self.claims.get(name) if isinstance(name, str) else None
        if claim is None or claim["verdict"] != "certified":
            raise Rejected(f"it rests on {shown(name)}, which is no certified claim of this report")
        if self.examine(claim).verdict != "certified":
            raise Rejected(f"it rests on {name}, which is not proved again")
        return claim

    def examine(self, claim: Claim) -> Finding:
        """The finding on one claim, made once."""
        from certify.checker.claims import CHECKS  # here, as the checks use contexts

        name, kind, verdict = claim["id"], claim["kind"], claim["verdict"]
        if name in self.findings:
            return self.findings[name] or Finding(name, kind, verdict, "rejected", "it rests on itself")
        self.findings[name] = None
        key = "precision/update" if claim["id"].startswith("precision/update/") else kind
        if verdict == "undecided":
            found = Finding(name, kind, verdict, "undecided", "left undecided")
        elif key not in CHECKS:
            found = Finding(name, kind, verdict, "undecided", f"claims of the kind {kind} are unknown to this checker")
        else:
            try:
                found = CHECKS[key](claim, self)
            except Beyond as error:
                found = Finding(name, kind, verdict, "undecided", str(error))
            except Rejected as error:
                found = Finding(name, kind, verdict, "rejected", str(error))
        self.findings[name] = found
        return found
