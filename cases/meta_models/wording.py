"""How the claims of this case are put together: ids, exact numbers, rounding to the safe side."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import flint
from flint import arb, fmpq

from certify.arithmetic.balls import middle, radius
from certify.certificate import Claim, Verdict, to_text

README = "cases/meta_models/README.md"
#: Bits of ball arithmetic. The balls of the checker are as fine; bounds keep 53 bits of them.
BITS = 400
#: Beyond every bound of a certified claim.
_BEYOND = Fraction(1 << 2000)
#: Longest exact number in a report; longer ones are rounded outward to 53 bits.
_LONGEST = 300
Number = Fraction | int | flint.arb
#: The least radius that is published, so that another evaluation proves it; below 1e-59.
LEAST_RADIUS = Fraction(1, 1 << 198)


def low_of(x: Number) -> Fraction:
    """A lower bound; of a ball that is not finite, one below all that are certified."""
    if not isinstance(x, arb):
        return Fraction(x)
    return middle(x) - radius(x) if x.is_finite() else -_BEYOND


def high_of(x: Number) -> Fraction:
    """An upper bound; of a ball that is not finite, one above all that are certified."""
    return -low_of(-x)


def at_least(x: Number) -> str:
    """A lower bound as text: exactly if it is short, else rounded down to 53 bits."""
    value = low_of(x)
    return to_text(value if _short(x, value) else floor_to(value, _places(value)))


def at_most(x: Number) -> str:
    """An upper bound as text."""
    value = high_of(x)
    return to_text(value if _short(x, value) else ceil_to(value, _places(value)))


def square(x: flint.arb) -> Any:
    """x x: the power of a ball around exactly 0 is not finite."""
    return x * x


def holds_zero(x: flint.arb) -> bool:
    """Whether an enclosure is finite and contains 0."""
    return bool(x.is_finite() and x.contains(0))


def radius_of(x: Number) -> str:
    """The radius of an enclosure as text, and not less than LEAST_RADIUS."""
    return at_most(max(high_of(x), LEAST_RADIUS))


def floor_to(x: Fraction, bits: int) -> Fraction:
    """The largest multiple of 2**-bits that is not above x; `bits` may be negative."""
    if bits < 0:
        return Fraction(x.numerator // (x.denominator << -bits) << -bits)
    return Fraction((x.numerator << bits) // x.denominator, 1 << bits)


def ceil_to(x: Fraction, bits: int) -> Fraction:
    """The least multiple of 2**-bits that is not below x."""
    return -floor_to(-x, bits)


def interval(x: flint.arb) -> dict[str, str]:
    """The bounds low and high of a ball, as multiples of 2**-240, with room for another evaluation."""
    return {
        "low": to_text(floor_to(low_of(x) - LEAST_RADIUS, 240)),
        "high": to_text(ceil_to(high_of(x) + LEAST_RADIUS, 240)),
    }


def ball(x: Fraction | int) -> Any:
    """A rational as a ball."""
    x = Fraction(x)
    return arb(fmpq(x.numerator, x.denominator))


def claim(
    kind: str,
    topic: str,
    instance: str,
    statement: str,
    *,
    verdict: bool | Verdict,
    reason: str = "",
    more: str = "",
    parameters: Mapping[str, Any] | None = None,
    bounds: Mapping[str, str] | None = None,
    observed: Mapping[str, Any] | None = None,
    assumptions: tuple[str, ...] = (),
    semantics: str = "real",
    witness: Mapping[str, Any] | None = None,
) -> Claim:
    """A claim about an instance: id KIND/TOPIC/INSTANCE and perhaps MORE; the theorem stands in the README under its topic.

    `verdict` True certifies; False leaves it undecided, for `reason`, and without bounds.
    """
    found = verdict if isinstance(verdict, Verdict) else Verdict.CERTIFIED if verdict else Verdict.UNDECIDED
    decided = found is not Verdict.UNDECIDED
    return Claim(
        id=f"{kind}/{topic}/{instance}" + (f"/{more}" if more else ""),
        kind=kind,
        statement=statement,
        semantics=semantics,
        parameters={"instance": instance, **(parameters or {})},
        verdict=found,
        reason="" if found is Verdict.CERTIFIED else reason,
        bounds=bounds or {} if decided else {},
        observed=observed or {},
        assumptions=assumptions,
        theorem=f"{README}#{topic}",
        witness=witness if decided else None,
    )


def texts(values: Any) -> Any:
    """Exact numbers as text, in the nesting of lists that they have."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return [texts(x) for x in values] if isinstance(values, list | tuple) else to_text(values)


def _places(value: Fraction) -> int:
    """How many binary places leave 53 significant bits."""
    return 54 - (abs(value.numerator).bit_length() - value.denominator.bit_length())


def _short(x: Number, value: Fraction) -> bool:
    return not isinstance(x, arb) and value.numerator.bit_length() + value.denominator.bit_length() < 3 * _LONGEST
