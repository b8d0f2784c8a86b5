"""Kernels as graphs: trace array code into scalar operations, and fix the order of its sums."""

from certify.graph.casting import cast as cast_traced
from certify.graph.casting import with_format_names
from certify.graph.evaluation import AnyOrder, Arithmetic, Values, apply, evaluate, output
from certify.graph.functions import sigmoid
from certify.graph.graph import ZERO, FormatNames, Graph, InputBlock, Instruction, Op, Output, live_terms
from certify.graph.lowering import lower
from certify.graph.orders import ORDERS, Order, additions, order_named, with_order
from certify.graph.places import Place, layer
from certify.graph.stored import with_stored_inputs
from certify.graph.traced import Traced
from certify.graph.tracing import Variable, trace

__all__ = [
    "ORDERS",
    "ZERO",
    "AnyOrder",
    "Arithmetic",
    "FormatNames",
    "Graph",
    "InputBlock",
    "Instruction",
    "Op",
    "Order",
    "Output",
    "Place",
    "Traced",
    "Values",
    "Variable",
    "additions",
    "apply",
    "cast_traced",
    "evaluate",
    "layer",
    "live_terms",
    "lower",
    "order_named",
    "output",
    "sigmoid",
    "trace",
    "with_format_names",
    "with_order",
    "with_stored_inputs",
]
