"""Programs that come in files beside a report: of a user's kernel, or of the kernels of a case."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from certify.checker.document import SIDE_FILE, Rejected, require_shape, shown
from certify.checker.program import Program, from_file, inputs_of
from certify.checker.saved import Saved, State

#: The subjects of reports on a user's kernel, and on a case that brings its own checks.
KERNEL = {"case": str, "kernel": str, "graph": dict, "tensors": dict}
CASE = {"case": str, "tensors": dict, "controls": dict, "kernels": dict}
_NAME = "[a-z][a-z0-9-]{0,39}"


@dataclass(frozen=True)
class Kernel:
    """A program with the values of its inputs, and what claims call it.

    Attributes
    ----------
    program : its operations.
    inputs : the entries of each input in C order, by name.
    place, words : where its claims hold, and what it is called.
    suffix : what ends the ids of its claims.
    assumption : what is taken for granted about the file.
    """

    program: Program
    inputs: dict[str, list[float]]
    place: str
    words: str
    suffix: str
    assumption: str


def user_kernel(subject: Any, saved: Saved, files: Callable[[str], bytes]) -> Kernel:
    """A user's kernel: its inputs are tensors of the input file, by their names."""
    program = _program(subject["graph"], files)
    inputs = _inputs(program, {name: name for name in program.inputs}, saved)
    assumption = "the graph file is the user's kernel: the checker does not see its source"
    return Kernel(program, inputs, "the inputs", "the kernel", "", assumption)


def case_kernel(name: str, given: Any, saved: Saved, files: Callable[[str], bytes]) -> Kernel:
    """A kernel of a case: `inputs` names the tensor of the state file that each input is."""
    if re.fullmatch(_NAME, name) is None:
        raise Rejected(f"{shown(name)} is no name of a kernel")
    require_shape(given, {"graph": dict, "inputs": dict}, f"the kernel {name} of the subject")
    program = _program(given["graph"], files)
    if set(given["inputs"]) != set(program.inputs):
        raise Rejected(f"the inputs of the kernel {name} are not those of its graph file")
    inputs = _inputs(program, given["inputs"], saved)
    assumption = f"the graph file is the kernel {name} of the case: the checker does not see its source"
    return Kernel(program, inputs, "the state", f"the kernel {name}", f"/kernel={name}", assumption)


def values_of(program: Program, subject: State | Kernel) -> list[float]:
    """The values of the input nodes of a program, at a state or of a kernel."""
    return inputs_of(program, subject.inputs if isinstance(subject, Kernel) else subject)


def _program(graph: Any, files: Callable[[str], bytes]) -> Program:
    require_shape(graph, SIDE_FILE, "the graph file of the subject")
    data = files(graph["file"])
    if hashlib.sha256(data).hexdigest() != graph["sha256"]:
        raise Rejected(f"the graph file {graph['file']} is not the one that the report names: its digest differs")
    return from_file(data)


def _inputs(program: Program, names: dict[str, Any], saved: Saved) -> dict[str, list[float]]:
    found = {}
    for name, tensor in names.items():
        if not isinstance(tensor, str) or tensor not in saved.tensors:
            raise Rejected(f"the input {shown(name)} of the graph file is no tensor of the state file")
        if saved.tensors[tensor].shape != program.shapes[name]:
            raise Rejected(f"the input {shown(name)} of the graph file has another shape than its tensor")
        found[name] = saved.tensors[tensor].values()
    return found
