"""The heat strips of a page: a row for each adjoint claim, a cell for each layer, darker where more of the bound comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from certify.certificate import Claim, Verdict
from certify.page.axes import readable
from certify.page.numbers import measured

MOST_LAYERS = 400
_WIDTH, _ROW, _LABEL = 360, 26, 112
_FAINTEST = 0.06


@dataclass(frozen=True)
class Strip:
    """One claim: what it is about, and its layers in execution order with their shares of the bound."""

    name: str
    layers: Sequence[tuple[str, float]]


def strips_of(claims: Iterable[Claim]) -> list[Strip]:
    """The strips of the certified adjoint claims about one state."""
    found = []
    for claim in claims:
        entries, where = claim.observed.get("shares"), claim.parameters.get("region")
        if claim.verdict is not Verdict.CERTIFIED or claim.parameters.get("method") != "adjoint":
            continue
        if not isinstance(entries, list) or not isinstance(where, dict):
            continue
        layers = [entry for entry in map(_entry, entries[:MOST_LAYERS]) if entry is not None]
        if layers:
            region = "on the ball" if where.get("kind") == "ball" else "at the state"
            found.append(Strip(f"{readable(claim.parameters.get('format'))} {region}", layers))
    return found


def hottest(strip: Strip) -> tuple[str, float]:
    """The layer with the largest share, and that share."""
    return max(strip.layers, key=lambda entry: entry[1])


def draw_strips(strips: Sequence[Strip], label: str) -> str:
    """The strips as inline SVG; each cell says its layer and share to a pointer."""
    height = _ROW * len(strips) + 4
    root = ElementTree.Element(
        "svg", {"viewBox": f"0 0 {_WIDTH} {height}", "role": "img", "aria-label": label, "class": "strip"}
    )
    for row, strip in enumerate(strips):
        top = 4 + row * _ROW
        text = ElementTree.SubElement(root, "text", {"x": "0", "y": str(top + 15), "font-size": "11", "class": "f-ink"})
        text.text = strip.name
        width = (_WIDTH - _LABEL) / len(strip.layers)
        for k, (layer, share) in enumerate(strip.layers):
            cell = ElementTree.SubElement(
                root,
                "rect",
                {
                    "x": f"{_LABEL + k * width:.2f}",
                    "y": str(top),
                    "width": f"{max(width - 1, 0.5):.2f}",
                    "height": str(_ROW - 6),
                    "class": "f-orange",
                    "fill-opacity": f"{max(share, _FAINTEST):.2f}",
                },
            )
            ElementTree.SubElement(cell, "title").text = f"{layer}: {share:.0%}"
    return ElementTree.tostring(root, encoding="unicode")


def _entry(entry: Any) -> tuple[str, float] | None:
    if not (isinstance(entry, list) and len(entry) == 2):
        return None
    share = measured(entry[1])
    return (readable(entry[0]), min(share, 1.0)) if share is not None and share >= 0 else None
