"""Reports for the tests of pages: every part that a page shows, two states, small numbers."""

from __future__ import annotations

import functools
import json
from html.parser import HTMLParser
from typing import Any

from certify.cli.overview import bound_text, overview_of

from certify.certificate import Claim, Report, encode
from certify.page import render

PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {"subnormals": True}}
SUBJECT = {"case": "polyprox", "p": 3, "p_max": 4, "states": 2, "tensors": {}, "controls": {}}
ASSUMPTIONS = ("every operation rounds to nearest, ties to even",)
LAYERS = ("1", "2.1", "2.2", "3")
VOID = ("meta", "input", "link", "br", "hr", "img", "wbr")


def rounding(format: str, state: int, region: str = "point", **changes: Any) -> Claim:
    """A certified rounding claim with the growth of its errors."""
    unit = {"float16": 5e-4, "float32": 6e-8, "float64": 1e-16}[format]
    fields: dict[str, Any] = {
        "id": f"rounding/{format}/serial/{region}/state={state}",
        "kind": "rounding",
        "statement": f"At state {state}, one update in {format} returns W within eps_W.",
        "semantics": "program",
        "parameters": {
            "state": state,
            "format": format,
            "order": "serial",
            "region": where(region),
            "method": "running",
        },
        "verdict": "certified",
        "bounds": {"eps_W": unit.hex()},
        "observed": {
            "error_W": (unit / 4).hex(),
            "growth": [[x, "SS", f"{unit * 2**k:.1e}", "1.0e+00"] for k, x in enumerate(LAYERS)],
        },
        "assumptions": ASSUMPTIONS,
        "theorem": "docs/theory/rounding.md#running",
        "display": {"digits_norm": "6.5", "digits_worst": "4.8"},
    }
    return Claim(**{**fields, **changes})


def where(region: str) -> dict[str, str]:
    """The parameters of a region."""
    return {"kind": "ball", "radius": "0x1p-7"} if region == "ball" else {"kind": "point"}


def overflow(format: str, state: int, place: str = "register SS, layer 2.2 (block.py:40)") -> Claim:
    """A refuted range claim."""
    return Claim(
        id=f"range/{format}/serial/point/state={state}",
        kind="range",
        statement=f"At state {state}, no operation of one update in {format} overflows.",
        semantics="program",
        parameters={
            "state": state,
            "format": format,
            "order": "serial",
            "region": where("point"),
            "limit": "0x1.ffcp+15",
        },
        verdict="refuted",
        reason=f"{place} overflows",
        observed={"first_risk": place},
        assumptions=ASSUMPTIONS,
        theorem="docs/theory/rounding.md#range",
        witness={"layer": "2.2", "register": "SS", "W": ["0x1p+0"]},
    )


def contraction(state: int, spectrum: tuple[str, ...] = ("2.0e-01", "9.0e-01", "1.5e+00"), **changes: Any) -> Claim:
    """A certified contraction claim with a spectrum."""
    fields: dict[str, Any] = {
        "id": f"contraction/face/state={state}",
        "kind": "contraction",
        "statement": "On the ball the update is q-Lipschitz with q < 1 on its face.",
        "semantics": "program",
        "parameters": {"state": state, "method": "face", "step": "recorded", "gamma": "0x1p-2", "tol": "0x1p-20"},
        "verdict": "certified",
        "bounds": {"q": "0x1.ff99a145dfd1bp-1", "mu": "0x1p-1", "L_J": "0x1.8p+2", "radius": "0x1p-7"},
        "observed": {"center_distance": "0x1p-10", "face": 3, "allowed": 6, "spectrum": list(spectrum)},
        "theorem": "docs/theory/contraction.md#face",
    }
    return Claim(**{**fields, **changes})


def updates(state: int, **changes: Any) -> Claim:
    """A certified count of updates with distances to draw."""
    steps = list(range(0, 60, 3))
    distances = {
        "updates": steps,
        "norm": [f"{1e-5 * 0.99**k:.2e}" for k in steps],
        "modal": [f"{1e-5 * 0.9**k:.2e}" for k in steps],
        "replayed": [[k, f"{1e-5 * 0.88**k:.2e}"] for k in steps],
    }
    fields: dict[str, Any] = {
        "id": f"updates/float64/state={state}",
        "kind": "updates",
        "statement": "After at most count updates W is within 1e-06 of the fixed point.",
        "semantics": "program",
        "parameters": {"state": state, "format": "float64", "order": "serial", "tol": "0x1p-20", "step": "recorded"},
        "verdict": "certified",
        "bounds": {"count": "44", "floor": "0x1p-46"},
        "observed": {"convergence": distances},
        "theorem": "docs/theory/contraction.md#updates",
    }
    return Claim(**{**fields, **changes})


def undecided(state: int) -> Claim:
    """A claim that no test settled."""
    reason = "no ball is certified: d + eps <= (1 - q) r fails"
    parameters = {"state": state, "format": "float16", "order": "serial", "tol": "0x1p-20", "step": "recorded"}
    return Claim(
        f"updates/float16/state={state}", "updates", "After updates.", "program", parameters, "undecided", reason
    )


def report(*more: Claim, subject: dict[str, Any] | None = None) -> Report:
    """Two states, at one of which float16 overflows, with claims of every kind that a page draws."""
    claims = [
        rounding("float16", 0),
        rounding("float32", 0),
        rounding("float32", 0, "ball"),
        rounding("float64", 0),
        contraction(0),
        undecided(0),
        updates(0),
        overflow("float16", 1),
        rounding("float32", 1),
        contraction(1, ("5.0e-01", "8.4e+00"), verdict="refuted", reason="it repels", bounds={}),
        *more,
    ]
    return Report(PRODUCER, SUBJECT if subject is None else subject, claims, ("rounding/float32/serial/point/state=0",))


def page_of(made: Report, **options: Any) -> str:
    """The page of a report, as the command makes it."""
    data = options.pop("data", None) or encode(made)
    page = render(made, data, overview_of(made), shown=bound_text, name=options.pop("name", "report.json"), **options)
    return page.decode("utf-8")


@functools.cache
def usual_page() -> str:
    """The page of `report()`, made once."""
    return page_of(report())


class Elements(HTMLParser):
    """The elements of a page, each with its attributes and the text inside; asserts that every tag is closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        inside: list[str] = []
        self.all.append((tag, dict(attrs), inside))
        if tag not in VOID:
            self._open.append((tag, inside))

    def handle_endtag(self, tag: str) -> None:
        """An element ends: the one that began last."""
        assert self._open.pop()[0] == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An SVG element without contents."""
        self.all.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        """Text, which is inside all that is open."""
        for _, inside in self._open:
            inside.append(data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """The attributes and the text of the elements of that name."""
        return [(attributes, "".join(inside)) for name, attributes, inside in self.all if name == tag]


def json_in(page: str) -> Any:
    """The report that a page shows as text."""
    (shown,) = [text for attributes, text in Elements(page).named("pre") if "aria-label" in attributes]
    return json.loads(shown)
