"""Plain NumPy arrays that add from left to right: what a `serial` program is in real float16, float32 and float64."""

from __future__ import annotations

from typing import Any

import numpy as np


class SerialArray(np.ndarray):
    """An array whose matrix products and sums are loops of NumPy's own rounded additions."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Loop over the terms of a matmul or a sum; everything else is NumPy's elementwise operation."""
        plain = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
        if ufunc is np.matmul:
            result = _matmul(*plain)
        elif ufunc is np.add and method == "reduce":
            result = _sum(plain[0], kwargs.get("axis", 0))
        else:
            result = getattr(ufunc, method)(*plain, **kwargs)
        return np.asarray(result).view(SerialArray)


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = None
    for k in range(a.shape[-1]):
        product = np.multiply.outer(a[..., k], b[k])
        total = product if total is None else total + product
    return np.asarray(total)


def _sum(a: np.ndarray, axis: int | None) -> np.ndarray:
    terms = a.ravel() if axis is None else np.moveaxis(a, axis, 0)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return np.asarray(total)


def run(kernel: Any, inputs: dict[str, Any], dtype: type[np.floating[Any]]) -> dict[str, np.ndarray]:
    """The outputs of `kernel` on float inputs converted to `dtype`, computed by NumPy in it, as binary64."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        given = {
            name: np.asarray(x).astype(dtype).view(SerialArray) if np.asarray(x).dtype.kind == "f" else x
            for name, x in inputs.items()
        }
        found = kernel(**given)
    if not isinstance(found, dict):
        found = {str(k): x for k, x in enumerate(found if isinstance(found, tuple) else (found,))}
    assert all(np.asarray(x).dtype == dtype for x in found.values())
    return {name: np.asarray(x).astype(np.float64) for name, x in found.items()}
