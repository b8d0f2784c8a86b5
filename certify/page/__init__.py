"""A report as one self-contained HTML page."""

from certify.page.model import Check, FormatRow, Overview, StageLine, StateView, Status
from certify.page.render import render, require_html

__all__ = [
    "Check",
    "FormatRow",
    "Overview",
    "StageLine",
    "StateView",
    "Status",
    "render",
    "require_html",
]
