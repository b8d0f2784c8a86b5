"""A report as one self-contained HTML page."""

from certify.page.model import Check, ComparedLine, FormatRow, Overview, PublishedLine, StageLine, StateView, Status
from certify.page.render import render, require_html
from certify.page.theorems import path_of

__all__ = [
    "Check",
    "ComparedLine",
    "FormatRow",
    "Overview",
    "PublishedLine",
    "StageLine",
    "StateView",
    "Status",
    "path_of",
    "render",
    "require_html",
]
