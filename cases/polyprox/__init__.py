"""The Poly-prox block: causal structure learning by a linear-attention transformer (arXiv 2610.10395).

`block` is the program that is certified, `weights` the same program as a literal transformer, `update` and
`update_exact` the definition it is compared with, `solve` the outer solver that produces states. See README.md.
"""

from .block import block
from .dyadic import DyadicMatrix
from .executors import Executor, blas, exact, forward, serial, serial_product
from .layers import FeedForward, Head, Layer, decode, encode, registers, weights
from .solver import Solution, Stage, Step, solve, stage_states
from .state import State, saved_from, states_from
from .update import ExactState, acyclicity, soft_threshold, update, update_exact

__all__ = [
    "DyadicMatrix",
    "ExactState",
    "Executor",
    "FeedForward",
    "Head",
    "Layer",
    "Solution",
    "Stage",
    "State",
    "Step",
    "acyclicity",
    "blas",
    "block",
    "decode",
    "encode",
    "exact",
    "forward",
    "registers",
    "saved_from",
    "serial",
    "serial_product",
    "soft_threshold",
    "solve",
    "stage_states",
    "states_from",
    "update",
    "update_exact",
    "weights",
]
