"""Reports and tolerances for a user's own traced kernel."""

from __future__ import annotations

from .arrays import binary64, family_of
from .kernel import Kernel, TracedKernel, trace_kernel
from .origins import Origin, origins
from .pairs import Pair
from .reference import enclosed, sharply
from .report import KernelReport, kernel_report, write_kernel_report
from .tolerance import Tolerance, chosen_order, overflow, program, tolerance, tolerance_between

__all__ = [
    "Kernel",
    "KernelReport",
    "Origin",
    "Pair",
    "Tolerance",
    "TracedKernel",
    "binary64",
    "chosen_order",
    "enclosed",
    "family_of",
    "kernel_report",
    "origins",
    "overflow",
    "program",
    "sharply",
    "tolerance",
    "tolerance_between",
    "trace_kernel",
    "write_kernel_report",
]
