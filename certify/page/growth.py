"""The chart of the error's growth, layer by layer, with the first operations that may overflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.certificate import Claim, Verdict
from certify.page.axes import LINE, beside, colour_of, direct_labels, finish_log, readable
from certify.page.figures import INK, SIZE, inline_svg, settings
from certify.page.numbers import measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LAYERS = 400
#: Before the first layer: the inputs, converted to the format.
INPUTS = "in"


@dataclass(frozen=True)
class Risk:
    """Where a format overflows first, or may: the layer (INPUTS for an input), and what happens, as a clause."""

    format: str
    layer: str
    clause: str


@dataclass(frozen=True)
class Growth:
    """The largest error bound in each layer, for each format, and the first overflow risks.

    Attributes
    ----------
    layers : in execution order.
    errors : by format; None where a format has no number.
    risks : one a format at most.
    ball : True if the errors hold on a ball, False if at the state alone.
    """

    layers: Sequence[str]
    errors: Mapping[str, Sequence[float | None]]
    risks: Sequence[Risk]
    ball: bool


def growth_of(claims: Iterable[Claim]) -> Growth | None:
    """What the claims about one state say about the growth of errors; None if nothing can be drawn."""
    claims = list(claims)
    found = {"ball": _errors(claims, "ball"), "point": _errors(claims, "point")}
    region = "ball" if found["ball"] else "point"
    if not found[region]:
        return None
    longest = max(found[region].values(), key=len)
    layers = list(longest)
    errors = {format: [at.get(layer) for layer in layers] for format, at in found[region].items()}
    risks = [risk for risk in _risks(claims) if risk.layer in layers or risk.layer == INPUTS]
    return Growth(layers, errors, risks, region == "ball")


def draw_growth(growth: Growth, prefix: str, label: str) -> str:
    """The chart as inline SVG: a line a format on a logarithmic scale, named at its end."""
    from matplotlib.figure import Figure

    layers = list(growth.layers)
    if any(risk.layer == INPUTS for risk in growth.risks):
        layers.insert(0, INPUTS)
    position = {layer: k for k, layer in enumerate(layers)}
    with settings():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        marked, ends = {risk.format for risk in growth.risks}, []
        for format, errors in growth.errors.items():
            drawn = [(position[layer], e) for layer, e in zip(growth.layers, errors, strict=True) if e]
            if drawn:
                axes.plot(*zip(*drawn, strict=True), color=colour_of(format), marker="o")
                if drawn[-1][0] == len(layers) - 1:
                    ends.append((format, drawn[-1][1], colour_of(format)))
                elif format not in marked:
                    beside(axes, drawn[-1], format, colour_of(format))
        values = [e for errors in growth.errors.values() for e in errors if e]
        finish_log(axes, values, lines=len(growth.risks))
        axes.set_xlim(-0.4, len(layers) - 0.6)
        _name_layers(axes, layers)
        _mark_risks(axes, growth.risks, position)
        direct_labels(axes, ends)
        axes.set_xlabel("layer or line, in the order of execution")
        return inline_svg(figure, prefix, label)


def _errors(claims: Iterable[Claim], region: str) -> dict[str, dict[str, float]]:
    """By format, then by layer: the largest error, as far as the report gives positive numbers."""
    found: dict[str, dict[str, float]] = {}
    for claim in claims:
        where, entries = claim.parameters.get("region"), claim.observed.get("growth")
        if claim.kind != "rounding" or not isinstance(where, dict) or where.get("kind") != region:
            continue
        if not isinstance(entries, list):
            continue
        at: dict[str, float] = {}
        for entry in entries[:MOST_LAYERS]:
            layer, error = _entry(entry)
            if error is not None:
                at[layer] = max(error, at.get(layer, 0.0))
        if any(at.values()):
            found[readable(claim.parameters.get("format"))] = at
    return found


def _entry(entry: Any) -> tuple[str, float | None]:
    if not (isinstance(entry, list) and len(entry) == 4):
        return "", None
    error = measured(entry[2])
    # a line of no layer goes by the register that it computes
    return readable(entry[0] or entry[1]), error if error is not None and error >= 0 else None


def _risks(claims: Iterable[Claim]) -> list[Risk]:
    found: dict[str, Risk] = {}
    for claim in claims:
        if claim.kind == "range" and claim.verdict is not Verdict.CERTIFIED:
            risk = _risk(claim)
            if risk is not None:
                found.setdefault(risk.format, risk)
    return list(found.values())


def _risk(claim: Claim) -> Risk | None:
    """From the place that the report names: `register SS, layer 2.1 (block.py:40)` or `input rho`."""
    place, format = claim.observed.get("first_risk"), readable(claim.parameters.get("format"))
    if not isinstance(place, str):
        return None
    happens = "overflows" if claim.verdict is Verdict.REFUTED else "may overflow"
    entered = re.match(r"input ([A-Za-z0-9_]{1,20})", place)
    if entered:
        return Risk(format, INPUTS, f"{entered[1]} {happens}")
    computed = re.match(r"(?:register ([A-Za-z0-9_]{1,20}), )?layer ([A-Za-z0-9_.]{1,20})", place)
    if computed:
        return Risk(format, computed[2], f"{computed[1] or 'layer ' + computed[2]} {happens}")
    return None


def _name_layers(axes: Axes, layers: Sequence[str]) -> None:
    every = -(-len(layers) // 18)
    shown = range(0, len(layers), every)
    crowded = sum(len(layers[k]) + 1 for k in shown) > 45
    axes.set_xticks(list(shown), [layers[k] for k in shown], rotation=90 if crowded else 0)
    axes.tick_params("x", length=3)


def _mark_risks(axes: Axes, risks: Sequence[Risk], position: Mapping[str, int]) -> None:
    for k, risk in enumerate(risks):
        x = position[risk.layer]
        axes.axvline(x, color=INK, linewidth=1, linestyle=(0, (2, 3)))
        axes.plot(
            [x],
            [1],
            marker="X",
            markersize=8,
            color=colour_of(risk.format),
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            linestyle="",
        )
        left = x < len(position) / 2
        axes.annotate(
            f"{risk.format}: {risk.clause}",
            (x, 1 - LINE * k),
            xytext=(9 if left else -9, 0),
            textcoords="offset points",
            xycoords=axes.get_xaxis_transform(),
            ha="left" if left else "right",
            va="top",
            color=colour_of(risk.format),
        )
