"""The decimal digits that a rounding claim displays: no more than its bound leaves of the numbers that the program returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import inf

from certify.checker.document import Claim, Rejected, shown
from certify.checker.rounding import Running
from certify.checker.setting import POINT

_DIGITS = re.compile(r"(0|[1-9][0-9]{0,3})\.([0-9])", re.ASCII)

Entry = tuple[float, float, float]  # at least, at most, and how far the computed number is from the exact one


def require_digits(claim: Claim, bounds: Running, eps: dict[str, Fraction]) -> None:
    """The digits displayed are no more than are proved here: `eps` are bounds of the error of outputs, by their names.

    With |x| the norm of an output, computed or exact, there are at most log10(|x| / eps) digits of the norm; of the worst
    entry at most log10(|x_k| / E_k), whichever entry k that is not 0. Entries and norms are enclosed here, and the larger end
    counts. Outputs and entries that may be 0 are left out, if there are others.
    """
    if not any(key.startswith("digits_") for key in claim["display"]):
        return
    if claim["parameters"]["region"] != POINT:
        raise Rejected("it displays digits, which are of a point")
    outputs = {name: list(_entries(bounds, name)) for name in eps}
    sure = {name: [e for e in entries if e[0] > e[2]] for name, entries in outputs.items()}
    counted = {name: entries for name, entries in outputs.items() if sure[name]} or outputs
    norms = {name: sum((Fraction(e[1]) + Fraction(e[2])) ** 2 for e in entries) for name, entries in counted.items()}
    squares = [(Fraction(norm), eps[name] ** 2) for name, norm in norms.items() if norm]
    _require(claim, "digits_norm", squares)
    every = [e for entries in (sure if any(sure.values()) else outputs).values() for e in entries if e[1]]
    # quotients are rounded, so which one is the least is known to two roundings
    worst = min(every, key=lambda e: e[1] / e[2] if e[2] else inf, default=(0.0, 0.0, 1.0))
    _require(claim, "digits_worst", [((Fraction(worst[1]) + Fraction(worst[2])) ** 2, Fraction(worst[2]) ** 2)])


def _entries(bounds: Running, output: str) -> Iterator[Entry]:
    """Every entry of an output, one that is a known number too."""
    for node, known in zip(bounds.program.outputs[output], bounds.program.known[output], strict=True):
        if node >= 0:
            low, high, error = bounds.low[node], bounds.high[node], bounds.error[node]
        else:
            low, high = sorted((known, bounds.fl(known)))
            error = abs(known - bounds.fl(known))
        yield max(low, -high, 0.0), max(-low, high), error


def _require(claim: Claim, name: str, squares: list[tuple[Fraction, Fraction]]) -> None:
    """The digits of that name are at most log10(size / error) for each of these squares of sizes and errors."""
    text = claim["display"].get(name)
    if text is None:
        return
    match = _DIGITS.fullmatch(text)
    if match is None and text != "exact":
        raise Rejected(f"{name} is displayed as {shown(text)}, which is no number of digits")
    # 10**(tenths / 10) <= size / error, to the tenth power; no digits at all are always kept
    tenths = int(match[1] + match[2]) if match else None
    for size, error in squares:
        if error and (tenths is None or (tenths and 10**tenths * error**5 > size**5)):
            raise Rejected(f"{name} is displayed as {text}, which is more than what is proved leaves")
