"""What a rounding or range claim is about, and the words that follow from it."""

from __future__ import annotations

import re
from typing import Any

from certify.checker.document import Beyond, Claim, Rejected, binary64, require_shape
from certify.checker.formats import format_named, order_named
from certify.checker.functions import RANGES
from certify.checker.rounding import Running

POINT = {"kind": "point"}
_LIBRARY = re.compile(
    r"(exp|log|tanh|sigmoid) of ((?:(?! returns )[\w .,+/()-]){1,200}) returns (?:the correctly rounded result|"
    r"a number within ([0-9]{1,17}(?:\.[0-9]{1,17})?(?:e\+[0-9]{2,3})?) ulp of the exact result, in the range of the function)"
)


class Setting:
    """What a rounding or range claim is about, and the words that follow from it."""

    def __init__(self, claim: Claim, context: Any) -> None:
        given, self.of_kernel = claim["parameters"], context.states is None
        name, order, region, k = (given.get(key) for key in ("format", "order", "region", "state"))
        if claim["id"].split("/")[1:3] != [name, order]:
            raise Rejected("its parameters belong to another id")
        self.context, self.format, self.order = context, format_named(name), order_named(order)
        self.subject = context.kernel(given.get("kernel")) if self.of_kernel else context.state(k)
        self.program = context.program(self.subject, order)
        if self.program.order != self.order:
            raise Rejected(f"the graph file is not in the order {order}")
        wide = self.order.accumulator
        sums = {own for op, *_, own in self.program.code if op in ("sum", "dot")} if wide else ()
        for held in (format_named(own) if own else self.format for own in sums):
            if wide and not wide.holds(held):
                raise Beyond(f"{wide.name} does not hold every number of {held.name}, in which sums are rounded")
        self.radius, self.center = 0.0, next(iter(self.program.inputs))
        here = self.subject.place if self.of_kernel else context.where(k)
        self.everywhere, self.what = f"At {here}", self.subject.words if self.of_kernel else "one update"
        if region != POINT:
            named = {"center": str} if self.of_kernel else {}
            require_shape(region, {"kind": "ball", "radius": str} | named, "its region")
            self.radius, self.center = binary64(region["radius"]), region.get("center", "W")
            if self.radius <= 0 or self.center not in self.program.inputs:
                raise Rejected("its region is no ball around an input")
            moved = self.center if self.of_kernel else "W with the mask M"
            self.everywhere = f"For every {moved} within Frobenius distance {self.radius!r} of that of {here}"
        self.id = f"{claim['kind']}/{name}/{order}/{'ball' if self.radius else 'point'}"
        self.suffix = self.subject.suffix if self.of_kernel else ""
        self.semantics = "any-order" if self.order.kind == "any-order" else "program"
        own = [f"operations marked as such are in {format_named(name).words}" for name in self.program.formats]
        self.ulps = self._library(claim["assumptions"])
        self.assumptions = [
            self.format.words,
            *own,
            "every operation rounds to nearest, ties to even",
            *self.order.words(self.format, bool(own)),
            "the stored binary64 inputs are converted to the format by one rounding to nearest",
            *(match[0] for match in self.library),
            *([self.subject.assumption] if self.of_kernel else []),
        ]
        self.keys = ["format", "order", "region"]
        self.keys += (["kernel"] if self.suffix else []) if self.of_kernel else ["state"]

    def _library(self, stated: list[Any]) -> dict[str, float | None]:
        """How many ulps the claim assumes of each function that the program calls, None for correctly rounded results."""
        found = self.library = [match for text in stated if (match := _LIBRARY.fullmatch(text))]
        code, ulps = self.program.code, [float(x[3]) if x[3] else None for x in found]
        called = self.context.cached(("called", id(self.program)), lambda: {op for op, *_ in code})
        good = all(u is None or (repr(u) == x[3] and u >= 0.5) for u, x in zip(ulps, found, strict=True))
        functions = [x[1] for x in found]
        if not good or functions != [name for name in RANGES if name in called] or len({x[2] for x in found}) > 1:
            raise Rejected("its assumptions do not say, function by function, how accurate one library is")
        return dict(zip(functions, ulps, strict=True))

    def bounds(self) -> Running:
        """Running bounds on the region, where nothing overflows."""
        place = (self.radius, self.center, self.order.name)
        found: Running = self.context.running(self.subject, self.format.name, *place, self.ulps)
        if found.first is not None:
            raise Rejected(f"an overflow is not excluded in {' '.join(self.program.place(found.first))}")
        return found
