"""Runs the literal layers under an arithmetic: BLAS, a serial program in one format, or exact.

An `Executor` is three functions; `forward` is the same for all. Residual streams are ``(p + 1, 13 P + 18)``.
Source: polyprox.md section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .dyadic import DyadicMatrix
from .layers import FeedForward, Layer


class Executor(NamedTuple):
    """``load`` converts a float64 matrix, ``product`` multiplies two matrices, ``relu`` is entrywise.

    What ``load`` returns must understand ``+``, the entrywise ``*``, and ``.T``.
    """

    load: Callable[[Any], Any]
    product: Callable[[Any, Any], Any]
    relu: Callable[[Any], Any]


def forward(Z: Any, layers: Iterable[Layer], executor: Executor) -> Any:
    """Return the residual stream after the layers, in the executor's arithmetic.

    Heads are summed from left to right. An overflow is no error: it shows as inf or nan in the result.
    """
    product = executor.product
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        Z = executor.load(Z)
        for layer in layers:
            outputs = []
            for head in layer.heads:
                Theta_Q, Theta_K, Theta_V = map(executor.load, head)
                scores = product(product(Z, Theta_Q), product(Z, Theta_K).T)
                outputs.append(product(scores, product(Z, Theta_V)))
            if outputs:
                O = outputs[0]  # noqa: E741
                for output in outputs[1:]:
                    O = O + output  # noqa: E741
                Z = Z + O
            if layer.ff is not None:
                Z = Z + _feedforward(Z, layer.ff, executor)
    return Z


def blas() -> Executor:
    """Return the float64 executor on NumPy's matrix product, whose order of summation is unspecified."""
    return Executor(lambda A: np.asarray(A, dtype=np.float64), np.matmul, _relu)


def serial(dtype: DTypeLike) -> Executor:
    """Return the executor in float16, float32 or float64 with serial, unfused, dense matrix products.

    NumPy rounds every single float16 operation correctly, through float32 (24 >= 2 * 11 + 2 digits suffice). The
    weights are exact in all three as long as ``1/N`` is normal: N up to 2**14 in float16.
    """
    return Executor(lambda A: np.asarray(A).astype(dtype), serial_product, _relu)


def exact() -> Executor:
    """Return the executor on `DyadicMatrix`: no operation rounds. It keeps the weights it has converted."""
    known: dict[int, tuple[Any, DyadicMatrix]] = {}

    def load(A: Any) -> DyadicMatrix:
        if isinstance(A, DyadicMatrix):
            return A
        if id(A) not in known:
            known[id(A)] = (A, DyadicMatrix.of(A))  # holding A keeps its id its own
        return known[id(A)][1]

    def product(A: DyadicMatrix, B: DyadicMatrix) -> DyadicMatrix:
        return (A @ B).reduced()

    return Executor(load, product, DyadicMatrix.relu)


def serial_product(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """Return ``A @ B`` with each entry summed in index order, every operation rounded to the dtype of the operands."""
    total = np.zeros((A.shape[0], B.shape[1]), dtype=A.dtype)
    for k in range(A.shape[1]):
        total = total + A[:, k : k + 1] * B[k : k + 1]
    return total


def _feedforward(Z: Any, ff: FeedForward, executor: Executor) -> Any:
    product = executor.product
    U_a, U_b, U_c, U_1, U_2 = map(executor.load, ff)
    bilinear = product(product(Z, U_a) * product(Z, U_b), U_c)
    return bilinear + product(executor.relu(product(Z, U_1)), U_2)


def _relu(A: NDArray[Any]) -> NDArray[Any]:
    positive: NDArray[Any] = np.maximum(A, A.dtype.type(0))
    return positive
