"""certify: proves how wrong a numerical kernel can be.

A kernel written as ordinary array code is traced into a graph, the graph is evaluated in several arithmetics, and the
evaluations become claims with evidence. This module is the public interface; nothing inside the package imports it.

>>> import numpy as np, certify
>>> graph = certify.trace(lambda x, y: x @ y, {"x": np.ones(100), "y": np.ones(100)}, order="serial")
>>> bounds = certify.running(graph, certify.BINARY32, certify.point({"x": np.ones(100) / 3, "y": np.ones(100)}))
>>> bool(bounds.error_of("0") < 1e-4)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from certify.version import __version__

if TYPE_CHECKING:
    from certify.arithmetic import (
        BFLOAT16,
        BINARY16,
        BINARY32,
        BINARY64,
        E4M3,
        E5M2,
        FORMATS,
        TF32,
        Format,
        Ieee,
        Libm,
        Stochastic,
        cast,
        enclosure,
        format_named,
        precision,
        with_formats,
    )
    from certify.cases.kernel import (
        KernelReport,
        Tolerance,
        kernel_report,
        tolerance,
        tolerance_between,
        write_kernel_report,
    )
    from certify.certificate import Claim, Report, Verdict
    from certify.errors import CertifyError, InputRejected, MissingExtra, OrderUnspecified, TraceRefused, Undecided
    from certify.graph import Graph, Variable, evaluate, layer, lower, order_named, output, sigmoid, trace, with_order
    from certify.rounding import (
        Adjoint,
        Bounds,
        Probable,
        Range,
        Region,
        Tuned,
        adjoint,
        ball,
        majorant,
        point,
        probable,
        range_test,
        relu_branches,
        running,
        running_batch,
        tune,
    )
    from certify.states import Saved, load, save

__all__ = [
    "BFLOAT16",
    "BINARY16",
    "BINARY32",
    "BINARY64",
    "E4M3",
    "E5M2",
    "FORMATS",
    "TF32",
    "Adjoint",
    "Bounds",
    "CertifyError",
    "Claim",
    "Format",
    "Graph",
    "Ieee",
    "InputRejected",
    "KernelReport",
    "Libm",
    "MissingExtra",
    "OrderUnspecified",
    "Probable",
    "Range",
    "Region",
    "Report",
    "Saved",
    "Stochastic",
    "Tolerance",
    "TraceRefused",
    "Tuned",
    "Undecided",
    "Variable",
    "Verdict",
    "__version__",
    "adjoint",
    "ball",
    "cast",
    "enclosure",
    "evaluate",
    "format_named",
    "kernel_report",
    "layer",
    "load",
    "lower",
    "majorant",
    "order_named",
    "output",
    "point",
    "precision",
    "probable",
    "range_test",
    "relu_branches",
    "running",
    "running_batch",
    "save",
    "sigmoid",
    "tolerance",
    "tolerance_between",
    "trace",
    "tune",
    "with_formats",
    "with_order",
    "write_kernel_report",
]

# Public names are loaded when they are first used: a command that only prints help does not wait for NumPy.
_SOURCES = ("errors", "states", "graph", "arithmetic", "rounding", "certificate", "cases.kernel")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for source in _SOURCES:
            module = import_module(f"certify.{source}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'certify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
