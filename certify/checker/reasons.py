"""The reason of a refuted range claim: which operation overflows, in the producer's words, written out anew.

The checker knows the layer, register and number of the operation, or the entry of the input. It does not know the source of the
kernel: of the file name and line, and of the place among the operations that ran together, the form is all that is checked.
"""

from __future__ import annotations

import re
from typing import Any

from certify.checker.document import Claim, Rejected, shown
from certify.checker.program import Program

_SOURCE = r"(?:[\w.][\w.+ -]{0,119}|<[\w.+ -]{1,120}>):[0-9]{1,9}"
_ELEMENT = r"(?:, element ([1-9][0-9]{0,9}) of ([1-9][0-9]{0,9}))?"
#: One addition or product is written as a sum or a product of sums (docs/report-format.md).
_CALLED = dict.fromkeys(("sum", "add"), ("SUM", "ADD")) | dict.fromkeys(("dot", "mul"), ("DOT", "MUL"))


def require_reason(claim: Claim, s: Any, node: int) -> None:
    """The reason names `node`, the first that overflows. `s` is the setting of the claim."""
    program: Program = s.program
    inputs = program.nodes - len(program.code)
    if inputs <= node < program.nodes:
        _require_operation(claim, s, node)
        return
    if node < inputs:
        exactly = f"{_entry(program, node)} overflows"
    else:
        output = program.constants[node - program.nodes][0]
        exactly = f"a known number of output {output} overflows (it passes {s.format.largest:g})"
    if claim["reason"] != exactly:
        raise Rejected(f"its reason is {shown(claim['reason'])}, not {exactly}")


def _entry(program: Program, node: int) -> str:
    """The entry of an input, as in `input A[0, 2]`; of a number the input alone."""
    for name, support in program.inputs.items():
        if node < len(support):
            at, index = support[node], list[int]()
            for length in reversed(program.shapes[name]):
                at, k = divmod(at, length)
                index.insert(0, k)
            return f"input {name}{index or ''}"
        node -= len(support)
    raise IndexError("the node is no input")


def _require_operation(claim: Claim, s: Any, node: int) -> None:
    layer, register = s.program.place(node)
    named = ", ".join([f"register {register}"] * bool(register) + [f"layer {layer}"] * bool(layer))
    place = rf"{re.escape(named)} \({_SOURCE}\)" if named else _SOURCE
    found = re.fullmatch(rf"{place} overflows \(node ([0-9]{{1,10}}), ([A-Z]+){_ELEMENT}\)", claim["reason"])
    op = s.program.code[node - (s.program.nodes - len(s.program.code))][0]
    good = found is not None and found[2] in _CALLED.get(op, (op.upper(),)) and int(found[3] or 1) <= int(found[4] or 1)
    # the block of a state is written out anew, with numbers of its own
    if found is None or not good or (s.of_kernel and int(found[1]) != node):
        raise Rejected(
            f"its reason does not say that the first overflow is in {named or 'that operation'}, node {node}"
        )
