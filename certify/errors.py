"""The errors a caller may meet: each class carries its exit code, each message the culprit and the remedy.

Only the command line turns an error into an exit code; numerics raise these and never exit.
"""

from __future__ import annotations


class CertifyError(Exception):
    """Base of every error raised on purpose; anything else that escapes is a bug (exit code 70).

    Parameters
    ----------
    problem : one sentence without a full stop that names the culprit.
    remedy : what to do next, without a full stop.
    """

    exit_code = 70

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class InputRejected(CertifyError):
    """A file, a state or an option value that cannot be used as given."""

    exit_code = 3


class TraceRefused(InputRejected):
    """A kernel uses an operation that has no node in the graph; the message names the source line."""


class OrderUnspecified(InputRejected):
    """A graph with sums of unspecified order was given to an arithmetic that needs a fixed program."""


class MissingExtra(InputRejected):
    """An optional dependency is not installed; the remedy names the extra."""


class Undecided(CertifyError):
    """A comparison of enclosures that overlap: neither true nor false may be returned."""

    exit_code = 1
