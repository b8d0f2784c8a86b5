"""Midpoint-radius arrays: the exact result of every member, as Fractions, lies in the enclosure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from certify.arithmetic.midrad import MidRad, box

TINY = 2.0**-1074
ULP = 2.0**-52

# Powers of two of the entries: ordinary, across forty binades, around the smallest normal, subnormal, near overflow.
SCALES = {"unit": (0, 1), "spread": (-20, 20), "tiny": (-1030, -1015), "subnormal": (-1074, -1060), "huge": (480, 500)}


def entries(rng: np.random.Generator, shape: tuple[int, ...], scale: str) -> np.ndarray:
    """Full-length significands with a power of two from the scale; about one in six is 0."""
    low, high = SCALES[scale]
    values = np.ldexp(rng.uniform(-1, 1, shape), rng.integers(low, high, shape))
    return np.where(rng.random(shape) < 1 / 6, 0.0, values)


def enclosure(rng: np.random.Generator, shape: tuple[int, ...], scale: str, width: float) -> MidRad:
    """A random enclosure; the radius is up to `width` of the entry, and 0 for a third of them."""
    mid = entries(rng, shape, scale)
    rad = np.abs(mid) * rng.uniform(0, width, shape)
    return MidRad(mid, np.where(rng.random(shape) < 1 / 3, 0.0, rad))


def member(rng: np.random.Generator, A: MidRad) -> np.ndarray:
    """An exact member, Fractions: the midpoint plus -1, 0, 1 or a random share of the radius."""
    mids, rads = A.mid.ravel().tolist(), A.rad.ravel().tolist()
    shares = np.where(rng.random(len(mids)) < 0.7, rng.integers(-1, 2, len(mids)), rng.uniform(-1, 1, len(mids)))
    values = [Fraction(m) + Fraction(r) * Fraction(s) for m, r, s in zip(mids, rads, shares.tolist(), strict=True)]
    return np.array(values, dtype=object).reshape(A.mid.shape)


def outside(A: MidRad, exact: np.ndarray) -> list[tuple[float, float, float]]:
    """The entries (midpoint, radius, exact value) that are not enclosed; entries that are not finite claim nothing."""
    exact = np.asarray(exact, dtype=object)
    assert A.mid.shape == A.rad.shape == exact.shape
    rows = zip(A.mid.ravel().tolist(), A.rad.ravel().tolist(), exact.ravel().tolist(), strict=True)
    return [
        (mid, rad, float(x))
        for mid, rad, x in rows
        if np.isfinite(mid) and np.isfinite(rad) and abs(x - Fraction(mid)) > Fraction(rad)
    ]


OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "product": lambda a, b: a @ b,
    "expression": lambda a, b: (a - b) @ (a + b) + (-a) * b,
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_enclose_the_exact_results_of_members(name: str, scale: str) -> None:
    """For random square enclosures, members and their corners included, no exact entry is outside."""
    rng = np.random.default_rng([len(name), len(scale)])
    for width in (0.0, 1e-17, 1e-12, 0.3, 2.0):
        for n in (1, 2, 5):
            a, b = (enclosure(rng, (n, n), scale, width) for _ in range(2))
            with np.errstate(over="ignore", invalid="ignore"):
                result = OPERATIONS[name](a, b)
            for _ in range(4):
                assert not outside(result, OPERATIONS[name](member(rng, a), member(rng, b)))


def test_long_products_enclose_the_exact_sum() -> None:
    """Inner length 300 with cancellation: the exact rational matrix product is enclosed, and no wider than 1e-10."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, 300)), rng.normal(size=(300, 3))
    a[:, 150:], b[150:] = a[:, :150], -b[:150]  # the exact product is 0
    result = MidRad.exact(a) @ MidRad.exact(b)
    exact = np.vectorize(Fraction, otypes=[object])(a) @ np.vectorize(Fraction, otypes=[object])(b)
    assert not np.any(exact)
    assert not outside(result, exact)
    # gamma_300 |a| |b| is about 300 2**-53 200 = 7e-12
    assert result.rad.max() < 1e-10


def test_a_product_of_huge_and_subnormal_entries_is_enclosed() -> None:
    """(1 + 2**-52) 2**1000 times 3 2**-1074 has 54 bits: it rounds by 2**-126 of an ordinary number, far above 2**-1074."""
    a, b = np.array([[(1 + ULP) * 2.0**1000]]), np.array([[3 * TINY]])
    # exactly 3 (1 + 2**-52) 2**-74, halfway between two binary64 numbers
    exact = np.array([[3 * (1 + Fraction(2) ** -52) * Fraction(2) ** -74]])
    assert not outside(MidRad.exact(a) * MidRad.exact(b), exact)
    assert not outside(MidRad.exact(a) @ MidRad.exact(b), exact)


def test_random_products_of_huge_and_subnormal_entries_are_enclosed() -> None:
    """The inner dimension 4 mixes huge left and subnormal right entries."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        a, b = enclosure(rng, (3, 4), "huge", 0.0), enclosure(rng, (4, 3), "subnormal", 1e-12)
        a = MidRad(np.ldexp(a.mid, 500), a.rad)
        assert not outside(a @ b, member(rng, a) @ member(rng, b))
        assert not outside(b.T @ a.T, (member(rng, a) @ member(rng, b)).T)


def test_zero_radius_costs_only_the_rounding() -> None:
    """Sums and products of point arrays get a radius of at most one unit in the last place, and the small constant."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=50), rng.normal(size=50)
    for result in (MidRad.exact(a) + MidRad.exact(b), MidRad.exact(a) * MidRad.exact(b)):
        assert (result.rad <= ULP * np.abs(result.mid) + 8 * TINY).all()
    assert not MidRad.exact(a).rad.any()


def test_symmetric_products_have_symmetric_enclosures_of_the_same_members() -> None:
    """A^T A for exact A: entry (i, j) and entry (j, i) both enclose the same rational."""
    rng = np.random.default_rng(4)
    a = entries(rng, (7, 5), "spread")
    exact = np.vectorize(Fraction, otypes=[object])(a)
    gram = MidRad.exact(a).T @ MidRad.exact(a)
    assert not outside(gram, exact.T @ exact)
    assert not outside(gram.T, exact.T @ exact)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("exponent", [-60, -1, 0, 3])
def test_scaling_encloses_also_where_it_underflows(scale: str, exponent: int) -> None:
    """A 2**k for every member; below the smallest normal the radius takes up what is lost."""
    rng = np.random.default_rng([exponent + 60, len(scale)])
    a = enclosure(rng, (6, 6), scale, 0.1)
    for _ in range(5):
        assert not outside(a.scaled(exponent), member(rng, a) * Fraction(2) ** exponent)


def test_total_size_and_selection_agree_with_the_members() -> None:
    """The sum of all entries is enclosed, sizes bound every member, and a selection encloses the selected."""
    rng = np.random.default_rng(5)
    for scale in SCALES:
        a = enclosure(rng, (4, 3), scale, 0.5)
        x = member(rng, a)
        assert not outside(a.total(), np.array(sum(x.ravel().tolist(), Fraction(0)), dtype=object))
        assert all(abs(v) <= Fraction(s) for v, s in zip(x.ravel().tolist(), a.size.ravel().tolist(), strict=True))
        rows, columns = np.array([3, 0]), np.array([2, 1])
        assert not outside(a[rows, columns], x[rows, columns])
        assert not outside(a.T, x.T)
        assert not outside(-a, -x)
    assert float(MidRad.exact(np.zeros((0, 0))).total().mid) == 0.0


def test_broadcast_products_enclose() -> None:
    """A scalar enclosure times an array, and an outer product by indexing with None."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        a, c = enclosure(rng, (5,), "spread", 0.1), enclosure(rng, (), "unit", 0.1)
        x, y = member(rng, a), member(rng, c)
        assert not outside(a * c, x * y.item())
        assert not outside(a[:, None] * a[None, :], np.outer(x, x))


def test_a_box_is_exactly_its_center_and_radius() -> None:
    """No rounding: midpoint and radius are the given floats, the radius broadcast."""
    made = box(np.array([[1.0, -2.0]]), 0.1)
    assert made.mid.tolist() == [[1.0, -2.0]]
    assert made.rad.tolist() == [[0.1, 0.1]]
    made.rad[0, 0] = 7.0  # its own memory
    assert box(np.array([[1.0, -2.0]]), 0.1).rad[0, 0] == 0.1


@pytest.mark.parametrize("name", ["add", "multiply", "product"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.7e308])
def test_overflow_and_nan_show_as_entries_that_are_not_finite(name: str, bad: float) -> None:
    """No operation turns a NaN, an infinity or an overflow into a finite enclosure."""
    a = MidRad.exact(np.full((2, 2), bad))
    with np.errstate(over="ignore", invalid="ignore"):
        result = OPERATIONS[name](a, a)
    assert not np.any(np.isfinite(result.mid) & np.isfinite(result.rad))
