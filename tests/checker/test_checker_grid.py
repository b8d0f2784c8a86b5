"""Every claim that the producer certifies or refutes is proved again: kernels of all operations, in all orders and formats."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from checker_kernels import inputs
from checker_reports import Report, findings, kernel_of, random_state, report_of

from certify.arithmetic import format_named
from certify.arithmetic.accumulators import accumulator
from certify.checker import Finding
from certify.errors import InputRejected
from certify.graph import order_named

ORDERS = ("serial", "pairwise", "blocked(2)", "blocked(3)", "fma", "any-order")
MIXED = (
    "serial:float32",
    "pairwise:float64",
    "blocked(2):float16",
    "fma:float32",
    "any-order:float32",
    "any-order:float64",
)
FORMATS = (
    "e4m3",
    "e5m2",
    "float16",
    "bfloat16",
    "tf32",
    "float32",
    "float64",
    "float16,ftz",
    "float32,ftz",
    "float64,ftz",
)
FORMATS += (
    "e4m3,saturate",
    "e5m2,ftz,saturate",
    "bfloat16,saturate",
    "p=9,emin=-20,emax=25",
    "p=24,emin=-300,emax=390",
)


def fitting(order: str, formats: tuple[str, ...]) -> list[str]:
    """The formats whose numbers the accumulator of the order holds."""
    wide, found = order_named(order).accumulator, []
    for name in formats:
        try:
            found += [name] if not wide or accumulator(wide, format_named(name)) else []
        except InputRejected:
            continue
    return found


def proved(report: Report, found: dict[str, Finding]) -> dict[str, int]:
    """No claim is rejected, none left undecided that the producer decides; how many there are by kind and verdict."""
    counts: dict[str, int] = {}
    for claim in report["claims"]:
        finding = found[claim["id"]]
        assert finding.verdict == claim["verdict"], (claim["id"], finding.sentence)
        key = f"{claim['kind']} {claim['verdict']}"
        counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("name", inputs())
def test_reports_on_kernels(name: str) -> None:
    """At the inputs and on a ball; each order with formats in turn, so that each format meets most orders and kernels."""
    kernel, at, center = inputs()[name]
    turn = itertools.count(list(inputs()).index(name) * 4)
    certified = reports = 0
    # a float16 accumulator does not hold a float32 sum
    orders = [x for x in (*ORDERS, *MIXED) if name != "mixed" or not x.endswith("float16")]
    for order in orders:
        formats = fitting(order, FORMATS)
        for _ in range(2):
            start = next(turn) * 3
            chosen = {formats[(start + k) % len(formats)] for k in (0, 1)}
            report, state, files = kernel_of(kernel, at, formats=chosen, order=order, center=center, radius=2.0**-6)
            counts = proved(report, findings(report, state, files))
            certified += counts.get("rounding certified", 0)
            reports += 1
    assert (reports, certified > 24) == (2 * len(orders), True)


@pytest.mark.slow
@pytest.mark.parametrize("name", inputs())
def test_reports_on_kernels_with_adjoint_bounds(name: str) -> None:
    """In each order, on a small ball and on one on which much is not decided."""
    kernel, at, center = inputs()[name]
    turn, certified = itertools.count(list(inputs()).index(name)), 0
    for order in (*ORDERS, *MIXED[:2], *MIXED[3:]):
        for radius in (2.0**-9, 0.3):
            format = fitting(order, FORMATS)[next(turn) * 4 % len(fitting(order, FORMATS))]
            options = {"formats": format, "order": order, "center": center, "radius": radius, "bound": "adjoint"}
            report, state, files = kernel_of(kernel, at, **options)
            certified += proved(report, findings(report, state, files)).get("rounding certified", 0)
    assert certified > 24


@pytest.mark.slow
@pytest.mark.parametrize("order", (*ORDERS, "any-order:float32"))
def test_reports_on_the_block_with_adjoint_bounds(order: str) -> None:
    """At states and on balls, in coarse and in fine formats."""
    rng, certified = np.random.default_rng(0), 0
    for state in (random_state(rng, 3, 4, 1, 0.7, 1.0), random_state(rng, 2, 3, 0, 1.0, 100.0)):
        formats = tuple(fitting(order, ("e5m2", "float16", "bfloat16,ftz", "tf32", "float32", "float64")))
        report, saved = report_of(state, formats=formats, order=order, samples=0, bound="adjoint", radius=0.01)
        certified += proved(report, findings(report, saved)).get("rounding certified", 0)
    assert certified > 24


@pytest.mark.parametrize("order", (*ORDERS, "serial:float32", "any-order:float32", "fma:float64"))
def test_reports_on_the_block(order: str) -> None:
    """At states and on balls, with overflows that are refuted, in coarse and in fine formats."""
    rng = np.random.default_rng(0)
    for state in (random_state(rng, 3, 4, 1, 0.7, 1.0), random_state(rng, 2, 3, 0, 1.0, 100.0)):
        formats = fitting(order, ("e5m2", "float16", "bfloat16,ftz", "tf32", "float32", "float64"))
        report, saved = report_of(state, formats=tuple(formats), order=order, update_tol=1.0, samples=0)
        assert proved(report, findings(report, saved))["exactness certified"] == 1


def large(x):
    """A product that float16 cannot hold, in a sum."""
    return {"y": np.sum(np.exp(x) * x), "z": x @ x}


@pytest.mark.parametrize("order", [*ORDERS, "any-order:float32", "fma:float16"])
@pytest.mark.parametrize("format", ["float16", "e4m3,saturate", "float16,ftz", "p=5,emin=-9,emax=10"])
def test_overflows_are_replayed(order: str, format: str) -> None:
    """In the program of each order, of any-order in the serial one; functions of the library are correctly rounded."""
    if not fitting(order, (format,)):
        return
    at = {"x": np.array([5.5, 11.0, 300.0 if order.endswith("32") else 4.0, 10.75])}
    report, state, files = kernel_of(large, at, formats=format, order=order, radius=1e-3)
    assert proved(report, findings(report, state, files))["range refuted"] == 2
