"""The enclosed flow of Phase I against other integrations, and its rate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certify.cases.star_graph.flow import Flow
from certify.checker.cases.star_graph import flow as checked
from flint import arb, ctx
from scipy.integrate import solve_ivp


def gradient_flow(positions):
    """The flow of the ten logits of row T, the end node at 9 and equally often at each of these positions."""

    def slope(_, w):
        s = np.exp(w - w.max())
        s /= s.sum()
        found = -s
        for t in positions:
            for j in (8, t):
                found[j] += s[j] / (s[8] + s[t]) / len(positions)
        return found

    return slope


@pytest.mark.parametrize(("flow", "positions"), [(Flow(4, 5), (1, 3, 5, 7)), (Flow(8, 1), tuple(range(8)))])
def test_the_enclosure_holds_the_gradient_flow(flow, positions):
    """All ten logits by Runge-Kutta; in both, classes that start alike stay alike."""
    times = [1, 10]
    found = solve_ivp(gradient_flow(positions), (0, 10), np.zeros(10), t_eval=times, rtol=1e-11, atol=1e-13)
    assert np.ptp(found.y[list(positions)], axis=0).max() < 1e-9
    for x, wanted, t in zip(flow.enclosed(times), np.exp(found.y[8] - found.y[positions[0]]), times, strict=True):
        assert abs(float(x) - wanted) < 1e-7 * wanted and float(x.rad()) < 1e-9
        with ctx.workprec(160):
            assert flow.rate(x, t) >= 0
        with ctx.workprec(checked.BITS):
            assert checked.reached(flow.m, t).overlaps(x)


def test_taylor_coefficients_are_those_of_the_solution():
    """The series from (0, 0) against a short integration, to first, second and all orders."""
    flow = Flow(4, 5)
    with ctx.workprec(160):
        a, b = flow.taylor(arb(0), arb(0))
        assert abs(a[1] - arb(3) / 8) < 1e-40 and abs(b[1] - arb(1) / 2) < 1e-40
        series = sum(a, arb(0))
    (x,) = flow.enclosed([1])
    assert abs(series - x.log()) < 1e-12


def test_a_wider_start_gives_a_wider_end():
    """Points of a box of starts end inside the enclosure of the box."""
    flow = Flow(4, 5)
    with ctx.workprec(160):
        box = flow.step(arb(1, 0.01), arb(1.5, 0.01), Fraction(1, 8))
        for da in (-0.01, 0, 0.01):
            for db in (-0.01, 0, 0.01):
                ends = flow.step(arb(1) + arb(da), arb(1.5) + arb(db), Fraction(1, 8))
                assert all(x.contains(y.mid()) for x, y in zip(box, ends, strict=True))


def test_the_rate_is_that_of_the_integral():
    """The derivative of x + (m+1) ln x - m/x is (x+1)(x+m)/x^2, and x' >= (m - 1/m) x^2 / ((x+1)(x+m)) along the flow."""
    for flow in (Flow(4, 5), Flow(8, 1)):
        with ctx.workprec(120):
            for value in (1.0, 1.5, 7.0, 300.0):
                a = arb(value).log()
                for o in (1.0, 0.4):  # O <= E, the order of the classes
                    slope = flow.taylor(a, a - arb(o).log())[0][1]
                    m = flow.m
                    assert slope >= (arb(m) - arb(1) / m) * value / ((value + 1) * (value + m)) * (1 - arb(2) ** -100)
