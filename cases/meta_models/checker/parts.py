"""The systems of a state as the checker reads them: parts by name, exact numbers, the words of claims."""

from __future__ import annotations

import re
from fractions import Fraction
from math import prod
from typing import Any

from flint import arb, fmpq, fmpq_mat

from certify.checker.document import Beyond, Claim, Rejected, agrees, integer, number, require_lower, shown

README = "cases/meta_models/README.md"
MOST_ENTRIES = 20_000
BITS = 480  # of ball arithmetic: no proof rests on them, only whether there is one
# tensors with their axes (those in brackets may be missing), and controls; equal letters are equal lengths
PARTS: dict[str, tuple[str, str]] = {
    "mean": ("H:n* m:n* [mask:n]", ""),
    "gaussian": ("J:nn h:n", "digits"),
    "convex": ("d:n e:n c:nn", "digits"),
    "attention": ("z:nd Wq:dd Wk:dd Wv:dd", ""),
    "anchor": ("e:n digits:k", "weight beta bound"),
    "moe": ("W:kod R:kd z:d B:ko", "scale"),
    "linear": ("x:nd W:od B:o [y:n]", ""),
    "identity": ("x:nd W:dod B:do [y:n]", ""),
    "swish": ("x:nd W:dod B:do [y:n]", ""),
    "pswish": ("x:nd W:dod B:do V:dd [y:n]", ""),
    "swiglu": ("x:nd W:kod B:ko V:kd U:kd [y:n]", ""),
    "softmax": ("x:nd W:kod B:ko R:kd [y:n]", ""),
    "meta": ("Theta:o* z:d", ""),
    "em": ("x:n", "share low high steps"),
    "hard": ("x:n", "low high"),
    "lda": ("Sigma:dd m0:d delta:d x:nd", ""),
    "rule": ("m0:M2 m1:M2", "a b slack"),
    "linkage": ("z:nd", ""),
    "lstm": ("x:d h:n c:n W:ad U:an b:a", ""),
    "ssm": ("x:d h:n A:n B:nd C:nd w:d", ""),
}
_NAME = re.compile(r"(([a-z]+)(?:-[a-z0-9]+)*)_([A-Za-z0-9]+?)(_denominator)?")


def require_subject(context: Any) -> None:
    """Every tensor and control is a part of a system, no system lacks one or has one of another shape.

    A denominator that the report leaves out would change the tensor: all of the file's metadata that can be controls are.
    """
    for name in context.saved.metadata:
        match = _NAME.fullmatch(name)
        if match is not None and match[2] in PARTS and name not in context.controls:
            raise Rejected(f"the control {shown(name)} of the state file is missing in the report")
    for name in [*context.saved.tensors, *context.controls]:
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in PARTS:
            raise Rejected(f"{shown(name)} is no part of a system of meta_models")
        tensors, numbers = PARTS[match[2]]
        known = [word.strip("[]").split(":")[0] for word in tensors.split()]
        if match[3] not in (known if name in context.saved.tensors or match[4] else numbers.split()):
            raise Rejected(f"{shown(name)} is no part of the system {match[2]}")
        if match[4] and (name in context.saved.tensors or context.controls[name] <= 0):
            raise Rejected(f"{shown(name)} is no denominator")
    for system in {_NAME.fullmatch(name)[1] for name in [*context.saved.tensors, *context.controls]}:  # type: ignore[index]
        System(context, system)


class System:
    """One system of the state: `rows` of a tensor as nested lists of Fractions, `number` of a control."""

    def __init__(self, context: Any, name: Any) -> None:
        self.name, self.context, sizes = name, context, dict[str, int]()
        tensors, numbers = PARTS.get(str(name).split("-")[0], ("", ""))
        self.system = str(name).split("-")[0]
        if not tensors:
            raise Rejected(f"{shown(name)} is no system of the state")
        for word in tensors.split():
            part, axes = word.strip("[]").split(":")
            if f"{name}_{part}" not in context.saved.tensors:
                if word[0] == "[":
                    continue
                raise Rejected(f"the state has no {shown(f'{name}_{part}')}")
            shape = context.saved.tensors[f"{name}_{part}"].shape
            fits = len(shape) == len(axes) or (axes[-1] == "*" and len(shape) >= len(axes) - 1)
            for length, axis in zip(shape, axes, strict=False):
                fits = (
                    fits
                    and length > 0
                    and (axis == "*" or length == (int(axis) if axis.isdigit() else sizes.setdefault(axis, length)))
                )
            if not fits:
                raise Rejected(f"{shown(f'{name}_{part}')} has the shape {shape}, which does not fit")
        for part in numbers.split():
            if f"{name}_{part}" not in context.controls:
                raise Rejected(f"the state has no control {shown(f'{name}_{part}')}")
        self.sizes = sizes

    def has(self, part: str) -> bool:
        """Whether there is this tensor."""
        return f"{self.name}_{part}" in self.context.saved.tensors

    def shape(self, part: str) -> tuple[int, ...]:
        """Of a tensor."""
        found: tuple[int, ...] = self.context.saved.tensors[f"{self.name}_{part}"].shape
        return found

    def rows(self, part: str) -> Any:
        """A tensor as nested lists of Fractions."""
        under = self.context.controls.get(f"{self.name}_{part}_denominator", Fraction(1))
        flat: Any = [Fraction(x) / under for x in self.context.saved.tensors[f"{self.name}_{part}"].values()]
        for length in reversed(self.shape(part)[1:]):
            flat = [flat[i : i + length] for i in range(0, len(flat), length)]
        return flat

    def number(self, part: str) -> Fraction:
        """A control."""
        found: Fraction = self.context.controls[f"{self.name}_{part}"]
        return found

    def whole(self, part: str, most: int) -> int:
        """A control that is a whole number from 1 to `most`."""
        value = self.number(part)
        return integer(int(value) if value.denominator == 1 else None, 1, most, f"{self.name}_{part}")


def system_of(claim: Claim, context: Any) -> System:
    """The system that a claim is about."""
    return System(context, claim["parameters"].get("instance"))


def words(
    claim: Claim,
    system: System,
    statement: str,
    *,
    topic: str,
    more: str = "",
    given: dict[str, Any] | None = None,
    bounds: tuple[str, ...] = (),
    semantics: str = "real",
    assumptions: tuple[str, ...] = (),
    verdict: str = "certified",
) -> None:
    """The words of a claim are those of its kind and its system; its parameters are `given`."""
    given = {"instance": system.name, **(given or {})}
    id = f"{claim['kind']}/{topic}/{system.name}" + (f"/{more}" if more else "")
    own = {
        "statement": statement,
        "theorem": f"{README}#{topic}",
        "assumptions": list(assumptions),
        "semantics": semantics,
    }
    agrees(claim, system.context, id=id, parameters=tuple(given), bounds=bounds, **own)
    if any(type(claim["parameters"][key]) is not type(x) or claim["parameters"][key] != x for key, x in given.items()):
        raise Rejected(f"its parameters are not {shown(given)}")
    if claim["verdict"] != verdict:
        raise Rejected(f"claims of this kind are {verdict}")


def numbers(values: Any, shape: tuple[int, ...], what: str) -> Any:
    """A nested list of number strings in this shape, as Fractions."""
    if not shape:
        return number(values)
    if not isinstance(values, list) or len(values) != shape[0]:
        raise Rejected(f"{what} of the witness does not have the shape of what it is")
    return [numbers(x, shape[1:], what) for x in values]


def witness(claim: Claim, *keys: str) -> list[Any]:
    """The entries of a witness that has exactly these."""
    found = claim["witness"]
    if not isinstance(found, dict) or set(found) != set(keys):
        raise Rejected(f"its witness does not have exactly {', '.join(keys)}")
    return [found[key] for key in keys]


def exact(rows: Any) -> Any:
    """A rational matrix."""
    return fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in rows])


def fraction(x: Any) -> Fraction:
    """A rational of flint."""
    return Fraction(int(x.p), int(x.q))


def real(x: Fraction | int) -> Any:
    """A rational as a ball."""
    x = Fraction(x)
    return arb(fmpq(x.numerator, x.denominator))


def point(x: Any) -> Fraction:
    """A ball without radius."""
    significand, exponent = (int(k) for k in x.man_exp())
    return significand * Fraction(2) ** exponent


def lower(x: Any) -> Fraction:
    """The least number of a ball."""
    if not x.is_finite():
        raise Beyond("an enclosure is not finite here")
    return point(x.lower())


def upper(x: Any) -> Fraction:
    """The largest number of a ball."""
    return -lower(-x)


def square(x: Any) -> Any:
    """x x: the power of a ball around exactly 0 is not finite."""
    return x * x


def total(values: Any) -> Any:
    """The sum of balls."""
    return sum(values, arb(0))


def positive_definite(A: Any) -> bool:
    """Sylvester's criterion for a symmetric rational matrix."""
    n = len(A)
    symmetric = all(A[i][j] == A[j][i] for i in range(n) for j in range(i))
    return symmetric and all(exact([row[:k] for row in A[:k]]).det() > 0 for k in range(1, n + 1))


def size(shape: tuple[int, ...]) -> int:
    """How many entries."""
    return prod(shape)


def require_positive(claim: Claim, own: Fraction, name: str = "margin") -> None:
    """A lower bound that is proved, and positive."""
    require_lower(claim, name, own)
    if number(claim["bounds"][name]) <= 0:
        raise Rejected(f"{name} is not positive")


def apply(A: Any, x: Any) -> list[Fraction]:
    """A x."""
    return [sum((a * y for a, y in zip(row, x, strict=True)), Fraction(0)) for row in A]
