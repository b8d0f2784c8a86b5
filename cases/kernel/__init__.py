"""Reports and tolerances for a user's own traced kernel."""

from __future__ import annotations

from .arrays import binary64, family_of
from .kernel import Kernel, TracedKernel, trace_kernel
from .origins import Origin, origins
from .pairs import Pair
from .reference import enclosed, exact_range, sharply
from .report import KernelReport, kernel_report, report_on, write_kernel_report
from .tolerance import Tolerance, chosen_order, program, tolerance, tolerance_between, without_bound
from .tuned import TunedKernel, tuned

__all__ = [
    "Kernel",
    "KernelReport",
    "Origin",
    "Pair",
    "Tolerance",
    "TracedKernel",
    "TunedKernel",
    "binary64",
    "chosen_order",
    "enclosed",
    "exact_range",
    "family_of",
    "kernel_report",
    "origins",
    "program",
    "report_on",
    "sharply",
    "tolerance",
    "tolerance_between",
    "trace_kernel",
    "tuned",
    "without_bound",
    "write_kernel_report",
]
