"""Regimes of random numbers at which rounding goes wrong: ties, subnormals, cancellation, thresholds; used by this folder."""

import numpy as np

from certify.arithmetic import Format


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def _ordinary(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def _representable(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    return f.round(rng.standard_normal(shape))


def _few_bits(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Small integers times a power of two: sums and products that tie or are exact."""
    return rng.integers(-9, 10, shape) * 2.0 ** rng.integers(-3, 4)


def _ties(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Halfway between two neighbours (in binary64: an odd significand of full length)."""
    significand = rng.integers(2 ** (f.precision - 1), 2**f.precision, shape).astype(np.float64)
    return _signs(rng, shape) * (significand + 0.5) * 2.0 ** (1 - f.precision + rng.integers(-3, 4, shape))


def _subnormal(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-16, 17, shape) / 4 * f.min_subnormal


def _threshold(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Around the smallest normal number."""
    return _signs(rng, shape) * rng.uniform(0.2, 5, shape) * f.min_normal


def _root_of_threshold(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Products of these underflow, or nearly."""
    return _signs(rng, shape) * rng.uniform(0.01, 3, shape) * 2.0 ** (f.emin // 2)


def _large(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Near overflow."""
    return _signs(rng, shape) * rng.uniform(0.02, 1, shape) * f.largest


def _root_of_largest(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    return _signs(rng, shape) * rng.uniform(0.01, 1.5, shape) * 2.0 ** (f.emax // 2)


def _powers(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Powers of two, and their neighbours in the format."""
    power = 2.0 ** rng.integers(-5, 6, shape)
    return _signs(rng, shape) * power * (1 + rng.integers(-2, 3, shape) * f.u)


def _tiny_beside(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Powers of two beside numbers that are about half their ulp: sums that barely exceed a power of two."""
    small = rng.uniform(0.4, 1.6, shape) * f.u
    return _signs(rng, shape) * np.where(rng.random(shape) < 0.5, small, 2.0 ** rng.integers(-1, 2, shape))


def _cancelling(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    """One magnitude, apart by a few units in the last place or less."""
    return _signs(rng, shape) * rng.uniform(0.5, 2) * (1 + rng.integers(-4, 5, shape) * f.u / 2)


def _zeros(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape) * (rng.random(shape) < 0.5)


def _wide(rng: np.random.Generator, f: Format, shape: tuple[int, ...]) -> np.ndarray:
    exponent = rng.integers(max(f.emin // 3, -60), min(f.emax // 3, 60) + 1, shape)
    return _signs(rng, shape) * rng.uniform(1, 2, shape) * 2.0**exponent


REGIMES = (
    _ordinary,
    _representable,
    _few_bits,
    _ties,
    _subnormal,
    _threshold,
    _root_of_threshold,
    _large,
    _root_of_largest,
    _powers,
    _tiny_beside,
    _cancelling,
    _zeros,
    _wide,
)
