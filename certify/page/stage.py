"""The charts of a fixed stage: the spectrum between 0 and 2, and predicted against replayed convergence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from certify.certificate import Claim, Verdict
from certify.page.axes import beside, colour_of, direct_labels, finish_log, level, power, readable
from certify.page.figures import BLUE, GREEN, INK, MUTED, ORANGE, RULE, SIZE, inline_svg, settings
from certify.page.numbers import exact, measured

MOST_EIGENVALUES = 5000
MOST_POINTS = 200
#: Beyond, a linear scale would leave no room between 0 and 2.
WIDEST_LINEAR = 12.0

Points = Sequence[tuple[float, float]]


def inside(value: float) -> bool:
    """Between 0 and 2; a decimal of four digits that says 2 may have been less."""
    return 0 < value <= 2


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of gamma K at the centre, increasing, and the interval that holds those of the whole ball, if proved."""

    values: Sequence[float]
    proved: tuple[float, float] | None

    @property
    def outside(self) -> int:
        """How many are not between 0 and 2."""
        return sum(not inside(value) for value in self.values)


@dataclass(frozen=True)
class Convergence:
    """Distances to the fixed point by update from the saved state, as far as known.

    Attributes
    ----------
    format : what the updates are computed in.
    norm, modal : two proved upper bounds; they start after the replayed updates.
    replayed : what a replay of the program gave.
    tol : the distance that is close enough.
    count : how many updates after `after` are enough.
    after : how many updates were replayed before the count starts.
    """

    format: str
    norm: Points
    modal: Points
    replayed: Points
    tol: float | None
    count: int | None
    after: int

    @property
    def end(self) -> int | None:
        """The update by which the tolerance is reached: those replayed before the count, and those counted."""
        return None if self.count is None else self.after + self.count


def spectrum_of(claims: Iterable[Claim]) -> Spectrum | None:
    """The first spectrum that the claims carry; None if there is none to draw."""
    for claim in claims:
        entries = claim.observed.get("spectrum")
        if claim.kind == "contraction" and isinstance(entries, list):
            values = sorted(v for v in map(measured, entries[:MOST_EIGENVALUES]) if v is not None)
            if values:
                return Spectrum(values, _proved(claim))
    return None


def convergences_of(claims: Iterable[Claim]) -> list[Convergence]:
    """One a format, of the claims that carry distances to draw."""
    found: dict[str, Convergence] = {}
    for claim in claims:
        carried = claim.observed.get("convergence")
        if claim.kind != "updates" or not isinstance(carried, dict):
            continue
        format = readable(claim.parameters.get("format"))
        count, replayed = claim.bounds.get("count", ""), claim.parameters.get("replayed")
        after = replayed if type(replayed) is int and replayed > 0 else 0
        entry = Convergence(
            format,
            # the bounds start where the replayed updates end
            _pairs(carried.get("updates"), carried.get("norm"), after),
            _pairs(carried.get("updates"), carried.get("modal"), after),
            _pairs(*_columns(carried.get("replayed"))),
            exact(claim.parameters.get("tol")),
            int(count) if count.isdecimal() and len(count) < 10 else None,
            after,
        )
        if entry.norm or entry.modal or entry.replayed:
            found.setdefault(format, entry)
    return list(found.values())


def draw_spectrum(spectrum: Spectrum, prefix: str, label: str) -> str:
    """The chart as inline SVG: eigenvalues from the smallest to the largest, 0 and 2 marked."""
    from matplotlib.figure import Figure

    with settings():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        ranked = list(enumerate(spectrum.values, 1))
        axes.axvspan(0, 2, color=GREEN, alpha=0.1, linewidth=0)
        for end in (0, 2):
            axes.axvline(end, color=INK, linewidth=1)
        for within, colour in ((True, BLUE), (False, ORANGE)):
            drawn = [(value, rank) for rank, value in ranked if inside(value) == within]
            if drawn:
                axes.plot(*zip(*drawn, strict=True), linestyle="", marker="o", color=colour)
        top = len(ranked) * 1.22 + 1
        if spectrum.proved is not None:
            axes.plot(spectrum.proved, [top * 0.9] * 2, color=GREEN, linewidth=4, solid_capstyle="butt")
            axes.annotate("proved on the whole ball", (1, top * 0.92), ha="center", va="bottom", color=GREEN)
        low, high = min(0.0, spectrum.values[0]), max(2.0, spectrum.values[-1])
        if high > WIDEST_LINEAR or low < -WIDEST_LINEAR:
            axes.set_xscale("symlog", linthresh=2, linscale=2)
            axes.set_xticks(*_symlog_ticks(low, high))
            axes.set_xticks([], minor=True)
            axes.set_xlim(low * 1.5 - 0.1, high * 1.5)
        else:
            margin = 0.04 * (high - low)
            axes.set_xlim(low - margin, high + margin)
            axes.set_xticks(range(math.ceil(low), math.floor(high) + 1))
        if spectrum.outside:
            _name_largest(axes, spectrum.values)
        axes.set_ylim(0, top)
        axes.set_ylabel("eigenvalues up to here")
        axes.set_xlabel("eigenvalue of gamma K")
        return inline_svg(figure, prefix, label)


def draw_convergence(found: Convergence, prefix: str, label: str) -> str:
    """The chart as inline SVG: distance by update on a logarithmic scale, each line named at its end."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with settings():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        bounds = (("norm bound", found.norm, MUTED, "--"), ("modal bound", found.modal, colour_of(found.format), "-"))
        for name, points, colour, dashes in bounds:
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, linestyle=dashes, label=name, zorder=3)
        if found.replayed:
            # hollow and few, as a bound that is tight runs through them
            dots: dict[str, Any] = {"markerfacecolor": "none", "markevery": max(len(found.replayed) // 24, 1)}
            axes.plot(*zip(*found.replayed, strict=True), color=INK, linestyle="", marker="o", label="replayed", **dots)
        values = [y for points in (found.norm, found.modal, found.replayed) for _, y in points]
        finish_log(axes, values if found.tol is None else [*values, found.tol])
        if found.tol:
            direct_labels(axes, [level(axes, found.tol, "tolerance")])
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        if found.end is not None and found.end <= axes.get_xlim()[1]:
            axes.axvline(found.end, color=RULE, linewidth=1)
            left = 2 * found.end > axes.get_xlim()[1]
            axes.annotate(
                f"enough: {found.end:,}",
                (found.end, 0.02),
                xytext=(-5 if left else 5, 0),
                textcoords="offset points",
                xycoords=axes.get_xaxis_transform(),
                ha="right" if left else "left",
                va="bottom",
                color=MUTED,
            )
        axes.legend(loc="upper right", frameon=False)
        axes.set_xlabel("updates")
        return inline_svg(figure, prefix, label)


def _proved(claim: Claim) -> tuple[float, float] | None:
    """gamma times the proved bounds of the curvature."""
    if claim.verdict is not Verdict.CERTIFIED:
        return None
    gamma, low, high = (
        exact(v) for v in (claim.parameters.get("gamma"), claim.bounds.get("mu"), claim.bounds.get("L_J"))
    )
    return None if gamma is None or low is None or high is None else (gamma * low, gamma * high)


def _pairs(updates: Any, distances: Any, after: int = 0) -> Points:
    if not (isinstance(updates, list) and isinstance(distances, list)):
        return []
    both = [(x, measured(y)) for x, y in zip(updates[:MOST_POINTS], distances[:MOST_POINTS], strict=False)]
    return sorted(
        (float(after + x), y) for x, y in both if type(x) is int and 0 <= x < 2**53 and y is not None and y > 0
    )


def _columns(pairs: Any) -> tuple[Any, Any]:
    rows = [p for p in pairs if isinstance(p, list) and len(p) == 2] if isinstance(pairs, list) else []
    return [p[0] for p in rows], [p[1] for p in rows]


def _symlog_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    ticks, names = [0.0, 1.0, 2.0], ["0", "1", "2"]
    for k in range(1, math.floor(math.log10(max(high, 10.0))) + 1):
        ticks.append(10.0**k)
        names.append(power(10.0**k))
    for k in range(1, math.floor(math.log10(max(-low, 1.0))) + 1):
        ticks.append(-(10.0**k))
        names.append(f"-{power(10.0**k)}")
    return ticks, names


def _name_largest(axes: Any, values: Sequence[float]) -> None:
    """The eigenvalue farthest outside, by its number."""
    rank, value = max(enumerate(values, 1), key=lambda entry: abs(entry[1] - 1))
    beside(axes, (value, rank), f"{value:.3g}", ORANGE, left=value > 1)
