"""Functions for kernels that NumPy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np

from certify.graph.elementwise import called
from certify.graph.graph import Op
from certify.graph.traced import Traced, promoted


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), as one function of a library: a kernel that calls it has one node for it.

    On NumPy arrays it is computed without overflow, in their dtype. Its error there is not part of any claim: a claim assumes
    what its `certify.arithmetic.Libm` says of `sigmoid`. A kernel that writes the formula out has its four operations.
    """
    if isinstance(x, Traced):
        with promoted((x,)):
            return called(Op.SIGMOID)(x)
    x = np.asarray(x)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
