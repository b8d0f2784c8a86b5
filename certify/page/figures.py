"""Matplotlib figures as inline SVG that belongs to its page: colours by class, no styles, no identifiers in common.

A page with a strict content security policy obeys no `style` attribute, and a page in light and dark needs colours that
CSS can change: both are what is left after `inline_svg`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What a chart draws in and the class that gives it a colour: `s-NAME` for lines, `f-NAME` for areas and text.
INK, MUTED, RULE = "#101010", "#202020", "#303030"
ORANGE, BLUE, GREEN, PURPLE = "#401010", "#401020", "#401030", "#401040"
CLASSES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    ORANGE: "orange",
    BLUE: "blue",
    GREEN: "green",
    PURPLE: "purple",
}
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "certify",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "lines.linewidth": 2,
    "lines.markersize": 4,
}
#: Inches: 360 by 252 CSS pixels, so that text is as large as intended on a phone.
SIZE = (5.0, 3.5)
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_DROPPED = ("metadata", "style")
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def settings() -> Iterator[None]:
    """Draw as the page needs it, whatever the user's own matplotlib settings are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(SETTINGS):
            yield


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """The figure as an `svg` element of an HTML page.

    Parameters
    ----------
    figure : drawn in the colours of CLASSES alone.
    prefix : what its identifiers start with, another one for each figure of a page.
    label : what it shows, for who does not see it.
    """
    for axes in figure.axes:
        axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata=_NO_METADATA)
    root = ElementTree.fromstring(data.getvalue())
    for element in root.iter():
        for child in [c for c in element if c.tag.removeprefix(_SVG) in _DROPPED]:
            element.remove(child)
        _restyle(element)
        _rename(element, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode")


def _restyle(element: ElementTree.Element) -> None:
    """Turn a `style` attribute into attributes of their own, and its colours into classes."""
    entries = (entry.partition(":") for entry in element.attrib.pop("style", "").split(";"))
    declared = {name.strip(): value.strip() for name, colon, value in entries if colon}
    classes = []
    if element.tag == f"{_SVG}text":
        size = re.search(r"([0-9.]+)px", declared.pop("font", "") or declared.pop("font-size", ""))
        declared = {name: value for name, value in declared.items() if not name.startswith("font")}
        if size:
            declared["font-size"] = size[1]
        declared.setdefault("fill", element.attrib.pop("fill", "#000000"))
    for name, value in declared.items():
        if name in ("fill", "stroke") and value != "none":
            classes.append(f"{name[0]}-{CLASSES.get(value, 'ink')}")
        else:
            element.set(name, value)
    if classes:
        element.set("class", " ".join(classes))


def _rename(element: ElementTree.Element, prefix: str) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    if "id" in element.attrib:
        element.set("id", prefix + element.attrib["id"])
    target = element.attrib.pop(f"{_XLINK}href", None)
    if target is not None:
        element.set("href", f"#{prefix}{target.removeprefix('#')}")
    for name, value in element.attrib.items():
        element.set(name, re.sub(r"url\(#([^)]*)\)", rf"url(#{prefix}\1)", value))
