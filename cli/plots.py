"""The figure of `certify updates`: bounds of the distance beside a replay, and the spectrum between 0 and 2."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from certify.cases.convergence import Convergence, Floats, Spectrum
from certify.cli.measured import number_down

from certify.certificate import decimal_up
from certify.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The palette of Okabe and Ito, told apart by people who do not see all colours
BLUE, VERMILION, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#666666"
#: A replay that overflows would press everything else into one line.
HIGHEST = 1e3
#: What would make two files of the same figure differ.
NO_DATES: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}
SETTINGS: Any = {
    "svg.hashsalt": "certify",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def require_matplotlib() -> None:
    """Raise MissingExtra if nothing can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtra("a plot needs matplotlib, which is not installed", "pip install 'certify[plots]'") from error


def draw(found: Convergence, title: str, tol: float, kind: str) -> bytes:
    """The figure as a file.

    Parameters
    ----------
    found : what is known about one state, with the distances of a replay.
    title : which state, step and format.
    tol : the distance that is asked for.
    kind : svg, png or pdf.

    Raises
    ------
    MissingExtra : matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        figure.suptitle(f"{title}: {found.verdict.value}", x=0.01, ha="left", fontsize=11, fontweight="bold")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_distances(left, found, tol)
        _draw_spectrum(right, found.spectrum)
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=160, metadata=NO_DATES[kind])
    return data.getvalue()


def _draw_distances(axes: Axes, found: Convergence, tol: float) -> None:
    prediction = found.prediction
    highest = HIGHEST * max(found.away, tol)
    replayed = _until(found.distances, 2 * highest)
    seen = [replayed[replayed > 0], np.array([tol])]
    axes.set_title("Distance to the fixed point, by update")
    if prediction is not None:
        at = found.entered + prediction.updates
        axes.plot(at, prediction.norm_bounds, color=GREY, linestyle=(0, (5, 2)), label="at most: norm bound")
        axes.plot(at, prediction.modal_bounds, color=BLUE, linewidth=1.8, label="at most: modal bound")
        seen += [prediction.norm_bounds, prediction.modal_bounds]
        if prediction.modal is not None:
            more = f"{prediction.modal:,} {'more ' if found.entered else ''}updates"
            _mark_update(axes, found.entered + prediction.modal, more, BLUE, beyond=int(at[-1]))
    elif found.radius is not None:
        seen.append(np.array([found.radius]))
    if len(replayed):
        # few points are marked, as a line would hide behind a bound that is tight
        marks: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markevery": max(len(replayed) // 25, 1)}
        axes.plot(
            np.where(replayed > 0, replayed, np.nan),
            color=VERMILION,
            linewidth=0.8,
            label="replayed: distance to the centre",
            **marks,
        )
    values = np.concatenate(seen)
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()) / 2, min(float(values.max()), highest) * 2
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_xlim(left=0)
    axes.set_xlabel("updates from the saved state")
    axes.set_ylabel("Frobenius distance")
    lines = [(tol, f"tolerance\n{tol:g}", GREEN)]
    if prediction is not None:
        lines.append((prediction.floor, f"floor\n{decimal_up(prediction.floor, 2)}", GREY))
    if found.radius is not None and found.entered == 0 and prediction is None:
        lines.append((found.radius, "certified\nball", BLUE))
    for value, words, colour in lines:
        if low < value < high:
            axes.axhline(value, color=colour, linewidth=0.8)
            # beside the axes, where no curve runs through it
            axes.annotate(words, (1.01, value), xycoords=axes.get_yaxis_transform(), va="center", color=colour)
    if found.entered:
        # the words stand before the entry, away from the other mark, if there is room for them
        last = int(axes.get_xlim()[1])
        beyond = 2 * found.entered if 3 * found.entered > last else last
        _mark_update(axes, found.entered, "in the certified ball", GREY, beyond=beyond, height=0.92)
    axes.legend(loc="best")


def _until(distances: Floats, limit: float) -> Floats:
    """The distances up to the first beyond `limit`, which is cut off there: a scale of 10**300 is no use to anyone."""
    beyond = np.flatnonzero(distances > limit)
    return np.minimum(distances[: beyond[0] + 1] if len(beyond) else distances, 10 * limit)


def _mark_update(axes: Axes, update: int, words: str, colour: str, beyond: int, height: float = 0.99) -> None:
    """A vertical line, with words on the side where more of the `beyond` updates lie."""
    axes.axvline(update, color=colour, linewidth=0.8, linestyle=":")
    left = 2 * update >= beyond
    axes.annotate(
        f"{words} " if left else f" {words}",
        (update, height),
        xycoords=axes.get_xaxis_transform(),
        ha="right" if left else "left",
        va="top",
        color=colour,
        # above the other mark's line
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


def _draw_spectrum(axes: Axes, spectrum: Spectrum | None) -> None:
    axes.set_title("Eigenvalues of gamma K on the face")
    if spectrum is None:
        axes.text(0.5, 0.5, "no entry moves", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    values = spectrum.values
    if spectrum.low is not None and spectrum.high is not None:
        label = f"certified on the ball:\n{_interval(spectrum.low, spectrum.high)}"
        axes.axvspan(spectrum.low, spectrum.high, color=GREEN, alpha=0.18, linewidth=0, label=label)
    ranks = np.arange(1, len(values) + 1)
    inside = (values > 0) & (values < 2)
    options: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3.5}
    axes.plot(values[inside], ranks[inside], color=BLUE, label="at the centre", **options)
    if not inside.all():
        axes.plot(values[~inside], ranks[~inside], color=VERMILION, label="outside (0, 2)", **options)
    for end in (0, 2):
        axes.axvline(end, color=GREY, linewidth=0.8, linestyle=(0, (5, 2)))
    low, high = min(0.0, float(values.min())), max(2.0, float(values.max()))
    margin = 0.04 * (high - low)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(0, len(values) + 1)
    axes.set_xlabel("contracting where all are between 0 and 2")
    axes.set_ylabel("rank")
    axes.legend(loc="lower right")


def _interval(low: float, high: float) -> str:
    """A certified interval inside (0, 2), rounded outward, and with the distance to 2 where it is small."""
    below = number_down(Fraction(low))
    gap = 2 - Fraction(high)
    if gap < Fraction(1, 100):
        return f"[{below}, 2 - {number_down(gap)}]" if gap > 0 else f"[{below}, {high:g}]"
    return f"[{below}, {math.ceil(high * 100) / 100:.2f}]"
