"""Adjoint bounds against exact arithmetic: random kernels of every operation, formats, orders, points and boxes."""

import pytest
from adjoint_cases import Tally, check_functions, check_polynomial, compare
from own_format_cases import NARROW, OWN, own_case

from certify.arithmetic import format_named

FORMATS = ("float16", "bfloat16", "float32", "float64", "e4m3", "e5m2", "float16,ftz", "p=5,emin=-3,emax=4,ftz")
ORDERS = ("serial", "pairwise", "blocked(2)", "fma", "any-order", "serial:float64", "any-order:float64")


def _polynomial(name, order, seeds, **options):
    tally = Tally()
    for seed in seeds:
        check_polynomial(seed, format_named(name), order, 3, 3, tally, **options)
    return tally


def _functions(name, order, seeds):
    tally = Tally()
    for seed in seeds:
        check_functions(seed, format_named(name), order, tally)
    return tally


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_no_error_exceeds_its_adjoint_bound(name, order):
    """Sums, products, ReLUs, overwrites: every element at every sample, and never looser than running."""
    tally = _polynomial(name, order, range(3))
    assert tally.violations == []
    assert tally.checked >= 6


@pytest.mark.parametrize("order", ["serial", "fma", "any-order"])
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "e4m3"])
def test_no_error_of_a_function_exceeds_its_adjoint_bound(name, order):
    """Quotients, roots, library functions, maxima, selections, mixed with the others."""
    tally = _functions(name, order, range(8))
    assert tally.violations == []
    assert tally.checked >= 3 and tally.elements >= 20


@pytest.mark.parametrize("order", ["serial", "fma", "pairwise", "serial:float64", "any-order"])
@pytest.mark.parametrize("name", ["float16", "float64", "e4m3", "float16,ftz"])
def test_no_error_exceeds_its_adjoint_bound_in_several_formats(name, order):
    """Instructions with formats of their own, casts and overwriting among them; of any order the running bounds stand."""
    tally = Tally()
    names = NARROW if ":" in order else OWN
    for seed in range(8):
        case = own_case(seed, format_named(name), 5, 3, order, names)
        compare(case, seed, format_named(name), order, tally)
    assert tally.violations == []
    assert tally.checked >= 20
    assert tally.sharper == 0 if order == "any-order" else tally.sharper > 10


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_no_error_exceeds_its_adjoint_bound_longer(name, order):
    """As above, in all 20,000 pairs of a kernel and a region."""
    tally = _polynomial(name, order, range(10**5, 10**5 + 70))
    assert tally.violations == []
    assert tally.checked >= 250 and tally.sharper > 0


@pytest.mark.slow
@pytest.mark.parametrize("order", ["serial", "fma", "any-order", "pairwise"])
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "e4m3", "float16,ftz"])
def test_no_error_of_a_function_exceeds_its_adjoint_bound_longer(name, order):
    """As above, 400 kernels each."""
    tally = _functions(name, order, range(10**5, 10**5 + 400))
    assert tally.violations == []
    assert tally.checked >= 60
