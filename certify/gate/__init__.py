"""Compares two reports: what became worse, in forms that people and CI read.

Reports are read, not believed and not checked here: a gate says that nothing proved before is lost, `certify check` that
what is claimed is true.
"""

from certify.gate.comparison import compare
from certify.gate.findings import BoundChange, Change, Code, Comparison, Finding, Source, lines_of
from certify.gate.rules import Rule, parse_rule, unused

__all__ = [
    "BoundChange",
    "Change",
    "Code",
    "Comparison",
    "Finding",
    "Rule",
    "Source",
    "compare",
    "lines_of",
    "parse_rule",
    "unused",
]
