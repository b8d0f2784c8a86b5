"""What the charts share: colours of formats, logarithmic scales, and labels beside the lines they name."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from certify.page.figures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"float16": ORANGE, "bfloat16": PURPLE, "float32": BLUE, "float64": GREEN}
#: Of the height of a chart: what one line of text takes.
LINE = 0.075
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def colour_of(format: str) -> str:
    """The colour of a format, the same in every chart."""
    return COLOURS.get(format, INK)


def readable(text: Any) -> str:
    """A name from a report as a label: short, of plain ASCII, which every font and every SVG can hold."""
    if not isinstance(text, str) or not text:
        return "-"
    return re.sub(r"[^A-Za-z0-9_.+,=() -]", "?", text[:16])


def power(value: float) -> str:
    """A power of ten, or a number, as a tick names it."""
    exponent = round(math.log10(value))
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def finish_log(axes: Axes, values: Sequence[float], *, lines: int = 0) -> None:
    """A logarithmic scale of the positive `values`, with few ticks and faint rules, and room for `lines` of text above."""
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    highest = max(highest, lowest + 1)
    step = -(-(highest - lowest) // 6)
    ticks = [10.0**k for k in range(lowest, highest + 1, step) if -300 < k < 300]
    axes.set_yscale("log")
    room = 0.2 + lines * LINE * (highest - lowest) * 1.3
    axes.set_ylim(10.0 ** max(lowest - 0.2, -300), 10.0 ** min(highest + room, 300))
    axes.set_yticks(ticks, [power(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params("y", length=0)


def direct_labels(axes: Axes, ends: Sequence[tuple[str, float, str]]) -> None:
    """Name lines to the right of the axes, at the height where each ends: (name, value, colour)."""
    scale = axes.transScale.transform
    low, high = (float(scale((1, y))[1]) for y in axes.get_ylim())
    wanted = sorted(((float(scale((1, value))[1]) - low) / (high - low), name, colour) for name, value, colour in ends)
    for height, (_, name, colour) in zip(_spread([h for h, _, _ in wanted]), wanted, strict=True):
        axes.annotate(name, (1.015, height), xycoords="axes fraction", va="center", color=colour, annotation_clip=False)


def beside(axes: Axes, point: tuple[float, float], name: str, colour: str, *, left: bool = False) -> None:
    """Name a point next to it, above a line that ends there."""
    offset = (-7 if left else 7, 2)
    axes.annotate(
        name,
        point,
        xytext=offset,
        textcoords="offset points",
        ha="right" if left else "left",
        va="bottom",
        color=colour,
    )


def level(axes: Axes, value: float, name: str) -> tuple[str, float, str]:
    """Draw a horizontal line and return the label that names it, for `direct_labels`."""
    axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (1, 2)))
    return name, value, MUTED


def _spread(heights: Sequence[float]) -> list[float]:
    """Increasing heights, moved apart where labels would overlap, and kept within the chart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LINE) if placed else height)
    over = placed[-1] - 1 if placed else 0.0
    for k in range(len(placed) - 1, -1, -1):
        most = placed[k + 1] - LINE if k + 1 < len(placed) else 1.0
        if over > 0:
            placed[k] = min(placed[k], most)
    return placed
