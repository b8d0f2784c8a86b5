"""Checks what the float program decodes: its own outputs, enclosed by this checker's running bounds of the graph file."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.document import Claim, Finding, Rejected, number, proved, require_lower
from certify.checker.formats import format_named
from certify.checker.program import inputs_of
from certify.checker.rounding import Running
from certify.checker.setting import Setting as Program

from .setting import setting_of
from .words import require_words

#: At most so many gammas in one claim.
MOST = 200


def decoded(claim: Claim, context: Any) -> Finding:
    """At each gamma v leads in every order, at one not in some; the program is that of a rounding claim of the report."""
    setting, given = setting_of(context), claim["parameters"]
    base = context.proved(given.get("rounding"))
    if base["kind"] != "rounding" or base["parameters"].get("kernel") != "circuit":
        raise Rejected("the claim it rests on is no rounding claim about the kernel circuit")
    name, gammas = base["parameters"]["format"], given.get("gammas")
    if not isinstance(gammas, list) or not 0 < len(gammas) <= MOST:
        raise Rejected(f"its gammas are not between 1 and {MOST}")
    exact, wrong = [number(x) for x in gammas], number(given.get("wrong"))
    own = {
        "format": name,
        "gammas": gammas,
        "listed": ", ".join(map(str, exact)),
        "wrong": given["wrong"],
        "instances": setting.instances,
        "rounding": base["id"],
    }
    words = {"semantics": base["semantics"], "assumptions": base["assumptions"]}
    require_words(claim, context, own, ["margin"], name=f"/{name}", **words)
    program = Program(base, context)
    margins = [min(_leads(program, name, x, len(setting.orders))) for x in exact]
    if not max(_trails(program, name, wrong, len(setting.orders))) > 0:
        raise Rejected("no other label is proved to be decoded at its last gamma")
    margin = min(margins)
    if margin <= 0 or number(claim["bounds"]["margin"]) <= 0:
        raise Rejected("v is not proved to lead at each of its gammas")
    require_lower(claim, "margin", margin)
    return proved(claim, margin=margin)


def weights(gamma: Fraction) -> dict[str, list[float]]:
    """Those of Corollary 1, each 10 x 10 row by row; Rejected if gamma is not in binary64."""
    value = float(gamma) if abs(gamma) <= 1024 else 0.0
    if Fraction(value) != gamma:
        raise Rejected("a gamma is no binary64 number up to 1024")
    cells = [(i, j) for i in range(10) for j in range(10)]
    return {
        "content_1": [0.0 for _ in cells],
        "position_1": [value if i == j + 1 else 0.0 for i, j in cells],
        "content_2": [value if i == j else 0.0 for i, j in cells],
        "position_2": [-value if i == j == 8 else 0.0 for i, j in cells],
    }


def _rows(program: Program, name: str, gamma: Fraction, orders: int) -> list[list[tuple[float, float]]]:
    """The ends of each computed entry of f1, by order."""
    inputs = inputs_of(program.program, weights(gamma))
    bounds = Running(program.program, format_named(name), inputs, inputs, program.ulps)
    if bounds.first is not None:
        raise Rejected("an overflow is not excluded")
    if (
        program.program.shapes.get("f1", (orders, 10)) != (orders, 10)
        or len(program.program.outputs["f1"]) != 10 * orders
    ):
        raise Rejected("the kernel does not return ten numbers for each edge order")
    ends = zip(*(program.program.values("f1", x) for x in (bounds.low, bounds.high)), strict=True)
    flat = list(ends)
    return [flat[10 * k : 10 * k + 10] for k in range(orders)]


def _leads(program: Program, name: str, gamma: Fraction, orders: int) -> list[Fraction]:
    found = []
    for row in _rows(program, name, gamma, orders):
        others = max(high for label, (_, high) in enumerate(row) if label != 1)
        found.append(Fraction(row[1][0]) - Fraction(others))
    return found


def _trails(program: Program, name: str, gamma: Fraction, orders: int) -> list[Fraction]:
    found = []
    for row in _rows(program, name, gamma, orders):
        others = max(low for label, (low, _) in enumerate(row) if label != 1)
        found.append(Fraction(others) - Fraction(row[1][1]))
    return found


CHECKS = {"margin/decoded": decoded}
