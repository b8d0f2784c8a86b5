"""Rounding-error and range bounds: one theorem per module."""

from certify.rounding.adjoint import Adjoint, adjoint
from certify.rounding.anyorder import EveryOrder
from certify.rounding.batch import running_batch
from certify.rounding.bounds import Bounds
from certify.rounding.majorant import Majorant, majorant
from certify.rounding.probable import Probable, probable
from certify.rounding.range import Branches, Range, range_test, relu_branches
from certify.rounding.region import Region, ball, point, variables
from certify.rounding.running import Running, running
from certify.rounding.tuning import Tuned, tune

__all__ = [
    "Adjoint",
    "Bounds",
    "Branches",
    "EveryOrder",
    "Majorant",
    "Probable",
    "Range",
    "Region",
    "Running",
    "Tuned",
    "adjoint",
    "ball",
    "majorant",
    "point",
    "probable",
    "range_test",
    "relu_branches",
    "running",
    "running_batch",
    "tune",
    "variables",
]
