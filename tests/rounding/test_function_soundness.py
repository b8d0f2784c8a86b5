"""The rules for quotients, roots, library functions, maxima and selections hold: 20,000 cases an operation and format.

The library errs as far as its ulps allow (`function_cases.Wild`), in any direction, from one call to the next.
"""

import numpy as np
import pytest
from function_cases import OPERATIONS, UNARY, violations

from certify.arithmetic import format_named
from certify.arithmetic.libm import CALLS, Libm
from certify.graph import Op
from certify.rounding import EveryOrder, Running

FORMATS = (
    "float16",
    "bfloat16",
    "tf32",
    "float32",
    "float64",
    "e4m3",
    "e5m2",
    "float16,ftz",
    "float64,ftz",
    "p=5,emin=-3,emax=4",
    "p=24,emin=-3,emax=100",
    "p=2,emin=-3,emax=7",
)


def _runs(name, format, count):
    """Both kinds of bounds, and three libraries where one is called: `count` lanes in all, at least."""
    ulps = [u for u in ((0.5, 1.0, 2.52) if name in CALLS else (1.0,)) if u * 2.0 ** (1 - format.precision) < 1]
    share = -(-count // (2 * len(ulps)))
    for kind in (Running, EveryOrder):
        for u in ulps:
            yield kind(format, Libm("a wild one", otherwise=u)), share


@pytest.mark.parametrize("count", [600, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_result_leaves_its_bounds(name, format, count):
    """Subnormals, ties, huge and tiny operands, wide enclosures and large errors; a refused lane promises nothing."""
    format, rng, counted = format_named(format), np.random.default_rng(6), 0
    for rules, lanes in _runs(name, format, count):
        wrong, promised = violations(rules, name, format, rng, lanes, rules.libm)
        assert wrong == []
        counted += promised
    assert counted >= count // 6


PAIRS = (
    *(
        ("float16", "float32"),
        ("float32", "float64"),
        ("e4m3", "float64"),
        ("bfloat16", "float16"),
        ("float64", "float16"),
    ),
    *(("float16,ftz", "float32"), ("float32,ftz", "float64"), ("float64,ftz", "float64"), ("float16", "e5m2")),
    *(("p=5,emin=-3,emax=4", "tf32"), ("p=24,emin=-40,emax=300", "float64")),
)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("format", "operands"), PAIRS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_result_leaves_its_bounds_where_operands_have_another_format(name, format, operands, count):
    """As above, for an instruction in one format whose operands are numbers of another."""
    format, given, rng, counted = format_named(format), format_named(operands), np.random.default_rng(7), 0
    for rules, lanes in _runs(name, format, count):
        inner = rules.in_format("", (operands,), () if name in UNARY else (operands,), Op[name.upper()])
        wrong, promised = violations(inner, name, format, rng, lanes, rules.libm, given)
        assert wrong == []
        counted += promised
    assert counted >= count // 12
