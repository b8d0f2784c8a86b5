"""What the charts take from claims, and the SVG they make of it."""

from __future__ import annotations

import re

import pytest
from page_reports import LAYERS, contraction, overflow, rounding, updates

from certify.page.figures import CLASSES
from certify.page.growth import INPUTS, draw_growth, growth_of
from certify.page.origins import draw_strips, hottest, strips_of
from certify.page.stage import convergences_of, draw_convergence, draw_spectrum, spectrum_of


def texts(svg):
    """The words in a drawing."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_growth_is_that_of_the_ball_if_there_is_one():
    """The widest region that the claims speak of, layers in order, and the marks of formats that overflow."""
    found = growth_of([rounding("float32", 0), rounding("float64", 0), overflow("float16", 0)])
    assert found.layers == list(LAYERS)
    assert found.errors["float32"] == pytest.approx([6e-8, 1.2e-7, 2.4e-7, 4.8e-7])
    assert not found.ball
    assert [(r.format, r.layer, r.clause) for r in found.risks] == [("float16", "2.2", "SS overflows")]
    on_ball = growth_of([rounding("float32", 0), rounding("float64", 0, "ball")])
    assert on_ball.ball
    assert list(on_ball.errors) == ["float64"]


def test_growth_of_an_input():
    """An input that does not fit the format is marked before the first layer."""
    found = growth_of([rounding("float32", 0), overflow("float16", 0, "input rho")])
    assert [(r.layer, r.clause) for r in found.risks] == [(INPUTS, "rho overflows")]
    assert "float16: rho overflows" in texts(draw_growth(found, "a-", "label"))


def test_growth_skips_what_is_no_number():
    """Zeros are not drawn on a logarithmic scale; infinities, words and other shapes are left out."""
    entries = [
        ["1", "S", "0", "1"],
        ["2", "S", "inf", "1"],
        ["3", "", "1e-3", "x"],
        7,
        ["4", "S", 1, "1"],
        ["", "y", "2e-3", "1"],
    ]
    found = growth_of([rounding("float32", 0, observed={"growth": entries})])
    assert found.layers == ["1", "3", "y"]
    assert found.errors["float32"] == [0.0, 1e-3, 2e-3]
    assert "float32" in texts(draw_growth(found, "a-", "label"))


@pytest.mark.parametrize("observed", [{}, {"growth": "x"}, {"growth": []}, {"growth": [["1", "S", "0", "0"]]}])
def test_no_growth(observed):
    """Nothing to draw is no chart."""
    assert growth_of([rounding("float32", 0, observed=observed)]) is None


def test_spectrum():
    """Sorted, with the interval proved for the whole ball: gamma mu and gamma L_J."""
    found = spectrum_of([contraction(0, ("1.5", "0.25", "x"))])
    assert found.values == [0.25, 1.5]
    assert found.proved == (0.125, 1.5)
    assert found.outside == 0
    words = texts(draw_spectrum(found, "a-", "label"))
    assert {"0", "1", "2", "proved on the whole ball"} <= set(words)
    assert spectrum_of([contraction(0, ())]) is None


@pytest.mark.parametrize(
    ("values", "named"), [(("0.5", "8.4"), "8.4"), (("-3e4", "0.5", "7e5"), "7e+05"), (("-0.5", "1"), "-0.5")]
)
def test_eigenvalues_outside_are_named(values, named):
    """The farthest from 1 has its number beside it, on a linear scale or where that is too wide."""
    found = spectrum_of([contraction(0, values, bounds={}, verdict="refuted", reason="r")])
    assert found.outside == len([v for v in values if not 0 < float(v) < 2])
    assert named in texts(draw_spectrum(found, "a-", "label"))


def test_convergence():
    """Both bounds, the replay and the tolerance, each named beside its line; the proved count is marked."""
    (found,) = convergences_of([updates(0)])
    assert (found.format, found.count, found.tol) == ("float64", 44, 2.0**-20)
    assert found.replayed[:2] == [(0.0, 1e-5), (3.0, 6.81e-6)]
    words = texts(draw_convergence(found, "a-", "label"))
    assert {"norm bound", "modal bound", "replayed", "tolerance", "enough: 44"} <= set(words)


def test_convergence_after_a_replay():
    """A count that starts after replayed updates is marked where it ends."""
    claim = updates(0)
    (found,) = convergences_of([updates(0, parameters={**claim.parameters, "replayed": 10})])
    assert found.end == 54
    assert found.norm[0] == (10.0, 1e-5)
    assert found.replayed[0] == (0.0, 1e-5)


@pytest.mark.parametrize(
    "carried",
    [
        3,
        {},
        {"updates": 3, "norm": 4},
        {"updates": [True, -1, "x"], "norm": ["1", "1", "1"]},
        {"replayed": [[1], 2, [3, "0"]]},
    ],
)
def test_no_convergence(carried):
    """Odd shapes are no chart, and no error."""
    assert convergences_of([updates(0, observed={"convergence": carried})]) == []


def test_drawings_take_their_colours_from_the_page():
    """No style and no colour in the SVG, but classes; text stays text; the identifiers have the prefix."""
    svg = draw_spectrum(spectrum_of([contraction(0)]), "pre-", 'a "label" <b>')
    assert not re.search(r"style=|<style|<metadata|#[0-9a-f]{6}|xlink|ns0:", svg)
    assert set(re.findall(r"\b[fs]-([a-z]+)", svg)) <= set(CLASSES.values())
    assert all(name.startswith("pre-") for name in re.findall(r' id="([^"]*)"', svg))
    assert 'aria-label="a &quot;label&quot; &lt;b&gt;"' in svg
    assert draw_spectrum(spectrum_of([contraction(0)]), "pre-", 'a "label" <b>') == svg


def adjoint(format, region="point", **changes):
    """An adjoint claim with the shares of its layers."""
    claim = rounding(format, 0, region)
    shares = [[f"layer {x}", f"{share}"] for x, share in zip(LAYERS, (0.1, 0.2, 0.65, 0.05), strict=True)]
    parameters = {**claim.parameters, "method": "adjoint"}
    return rounding(format, 0, region, parameters=parameters, observed={"shares": shares}, **changes)


def test_a_heat_strip_has_a_cell_for_each_layer():
    """A row for each adjoint claim; the hotter the more opaque; the pointer reads layer and share."""
    strips = strips_of([rounding("float32", 0), adjoint("float32"), adjoint("float64", "ball")])
    assert [strip.name for strip in strips] == ["float32 at the state", "float64 on the ball"]
    assert hottest(strips[0]) == (f"layer {LAYERS[2]}", 0.65)
    svg = draw_strips(strips, 'a "label" <b>')
    assert svg.count("<rect") == 2 * len(LAYERS)
    assert re.findall(r'fill-opacity="([^"]*)"', svg)[:4] == ["0.10", "0.20", "0.65", "0.06"]
    assert f"<title>layer {LAYERS[2]}: 65%</title>" in svg
    assert "<b>" not in svg and "style=" not in svg


def test_strips_of_what_is_no_share():
    """Undecided claims and entries of other shapes are left out."""
    assert strips_of([adjoint("float32", verdict="undecided", reason="no")]) == []
    wrong = adjoint("float32")
    for shares in (7, [["1"]], [["1", "x"]], [["1", "-1"]], [["1", 1]]):
        observed = {"shares": shares}
        assert strips_of([rounding("float32", 0, parameters=wrong.parameters, observed=observed)]) == []
