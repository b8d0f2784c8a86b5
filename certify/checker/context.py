"""What the claims of one report share: the states, the kernels, and every analysis that was made already."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import inf, nextafter
from typing import Any

from certify.checker.cases import checks_of
from certify.checker.claims import CHECKS
from certify.checker.document import SIDE_FILE, Beyond, Claim, Finding, Rejected, number, require_shape, shown
from certify.checker.evidence import evidence, require_used
from certify.checker.formats import format_named, order_named
from certify.checker.kernels import CASE, KERNEL, Kernel, case_kernel, user_kernel, values_of
from certify.checker.program import Program, polyprox
from certify.checker.rounding import Running
from certify.checker.saved import Saved, State, States, rows_of


class Context:
    """The subject of a report, read from the state file.

    Attributes
    ----------
    saved : the tensors that the subject names, and the metadata of the file.
    states : of the case polyprox, else None.
    kernels : programs of files beside the report, by name; the one of a user has the name "".
    controls : of a case with checks of its own: numbers of the metadata, by name.
    checks : the function that proves a claim, by the first two parts of its id or by its kind.
    """

    checks: Mapping[str, Callable[[Claim, Any], Finding]] = CHECKS

    def __init__(self, subject: Any, claims: dict[str, Claim], saved: Saved, files: Callable[[str], bytes]) -> None:
        self.claims, self.case, self.several, self.cache = claims, subject.get("case"), False, dict[Any, Any]()
        self.files = files
        self.findings: dict[str, Finding | None] = {}
        self.states: Any = None
        self.kernels: dict[str, Kernel] = {}
        self.controls: dict[str, Fraction] = {}
        self.saved = saved.of(subject)
        if self.case == "polyprox":
            self.states = States(self.saved)
            self.states.require_subject(subject)
            self.several = self.states.count > 1
        elif self.case == "kernel":
            require_shape(subject, KERNEL, "the subject of the report")
            self._require_tensors(subject)
            self.kernels[""] = user_kernel(subject, self.saved, files)
        else:
            self._of_case(subject)

    def _of_case(self, subject: Any) -> None:
        """Any other case brings its own checks."""
        rules = checks_of(self.case)
        if rules is None:
            raise (Beyond if isinstance(self.case, str) else Rejected)(
                f"the report is about the case {shown(self.case)}, unknown to this checker"
            )
        require_shape(subject, CASE, "the subject of the report")
        self._require_tensors(subject)
        self.controls = {name: number(text) for name, text in subject["controls"].items()}
        if any(number(self.saved.metadata.get(name)) != x for name, x in self.controls.items()):
            raise Rejected("the controls of the subject are not those of the state file")
        self.kernels = {
            name: case_kernel(name, given, self.saved, self.files) for name, given in subject["kernels"].items()
        }
        rules.require_subject(self)
        self.checks = CHECKS | rules.CHECKS

    def _require_tensors(self, subject: Any) -> None:
        if subject["tensors"] != {name: tensor.digest() for name, tensor in self.saved.tensors.items()}:
            raise Rejected("the digests of the subject are not those of the tensors of the state file")

    def where(self, k: int) -> str:
        """What statements call state k."""
        return f"state {k}" if self.several else "the state"

    def state(self, k: Any) -> State:
        """State k of the file."""
        if self.states is None:
            raise Rejected("the report is about no states of this checker's own")
        state: State = self.cached(("state", repr(k)), lambda: self.states.state(k))
        return state

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object of this key, made once."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def kernel(self, name: Any) -> Kernel:
        """The kernel of that name; the one of a user has none."""
        found = self.kernels.get("" if name is None else name) if name is None or isinstance(name, str) else None
        if found is None:
            raise Rejected(f"it is about the kernel {shown(name)}, which the subject does not name")
        return found

    def program(self, subject: State | Kernel, order: str = "serial") -> Program:
        """The block for the mask, b and capacity of a state, in an order; of a kernel, its program."""
        if isinstance(subject, Kernel):
            return subject.program
        key = ("program", str(subject.M), subject.b, subject.N, order)
        program: Program = self.cached(key, lambda: polyprox(subject.M, subject.b, subject.N, order_named(order)))
        return program

    def running(
        self,
        subject: State | Kernel,
        format: str,
        radius: float = 0.0,
        center: str = "W",
        order: str = "serial",
        ulps: Any = None,
    ) -> Running:
        """Bounds on the box around the ball of an input; the ends of the box lie one step beyond the rounded ones."""
        program = self.program(subject, order)
        values = values_of(program, subject)
        names = [name if radius else "" for name, support in program.inputs.items() for _ in support]
        lower, upper = (
            [nextafter(x + r, inf * r) if n == center else x for n, x in zip(names, values, strict=True)]
            for r in (-radius, radius)
        )
        key = ("running", id(program), format, tuple(lower), tuple(upper), str(ulps))
        bounds: Running = self.cached(key, lambda: Running(program, format_named(format), lower, upper, ulps))
        return bounds

    def witness(self, claim: Claim) -> dict[str, Any]:
        """The witness of a claim, with the arrays of the file that it may name in their places."""
        witness = evidence(claim)
        if "file" not in witness:
            return witness
        file, digest = (witness[key] for key in SIDE_FILE)
        if self.cached(("digest", file), lambda: hashlib.sha256(self.files(file)).hexdigest()) != digest:
            raise Rejected(f"its witness file {file} is not the one that the report names: its digest differs")
        rows: dict[str, Any] = self.cached(
            ("rows", file), lambda: rows_of(self.files(file), f"its witness file {file}")
        )
        if set(rows) & set(witness):
            raise Rejected(f"its witness and its witness file both hold {shown(sorted(set(rows) & set(witness))[0])}")
        return witness.joined(rows)

    def proved(self, name: Any) -> Claim:
        """A certified claim of this report, after checking it."""
        claim = self.claims.get(name) if isinstance(name, str) else None
        if claim is None or claim["verdict"] != "certified":
            raise Rejected(f"it rests on {shown(name)}, which is no certified claim of this report")
        found = self.examine(claim).verdict
        if found != "certified":
            raise (Beyond if found == "undecided" else Rejected)(f"it rests on {name}, which is not proved again")
        return claim

    def examine(self, claim: Claim) -> Finding:
        """The finding on one claim, made once."""
        name, kind, verdict = claim["id"], claim["kind"], claim["verdict"]
        if name in self.findings:
            return self.findings[name] or Finding(name, kind, verdict, "rejected", "it rests on itself")
        self.findings[name] = None
        prove = self.checks.get("/".join(name.split("/")[:2])) or self.checks.get(kind)
        try:
            if verdict == "undecided":
                raise Beyond("left undecided")
            if prove is None:
                raise Beyond(f"claims of the kind {kind} are unknown to this checker")
            if claim["witness"] is not None:
                claim = claim | {"witness": evidence(claim)}
            found = prove(claim, self)
            if prove in CHECKS.values():  # a case may look at one witness for several claims
                require_used(claim)
        except Beyond as error:
            found = Finding(name, kind, verdict, "undecided", str(error))
        except Rejected as error:
            found = Finding(name, kind, verdict, "rejected", str(error))
        self.findings[name] = found
        return found
