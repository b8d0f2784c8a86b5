"""Reports on a user's own traced kernel."""

from __future__ import annotations

from .kernel import Kernel, TracedKernel, trace_kernel
from .origins import Origin, origins
from .report import KernelReport, kernel_report, write_kernel_report

__all__ = [
    "Kernel",
    "KernelReport",
    "Origin",
    "TracedKernel",
    "kernel_report",
    "origins",
    "trace_kernel",
    "write_kernel_report",
]
