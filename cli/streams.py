"""Standard input, output and error: bytes in, bytes out, and lines for a person.

The report goes to a file or to standard output, everything else to standard error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from certify.errors import InputRejected

DASH = "-"
"""The file name that stands for standard input or output."""


def say(text: str) -> None:
    """Write a line to standard error; nowhere, if it is closed."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """`text` without line breaks or control characters, which a file's contents could smuggle to a terminal."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in joined)


def read_input(limit: int) -> bytes:
    """All of standard input, at most `limit` + 1 bytes. Raises InputRejected."""
    try:
        stream: BinaryIO = sys.stdin.buffer
        return stream.read(limit + 1)
    except (AttributeError, OSError, ValueError) as error:
        raise InputRejected("cannot read standard input", "name a file instead of -") from error


def write_output(data: bytes) -> None:
    """Write all of `data` to standard output. Raises InputRejected; BrokenPipeError if the reader went away."""
    if sys.stdout is None:
        raise InputRejected("standard output is closed", "name a file with -o")
    with _explained():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush_output() -> None:
    """Flush what was printed, so that a failure shows now and not when the interpreter exits. Raises as above."""
    if sys.stdout is not None:
        with _explained():
            sys.stdout.flush()


def abandon_output() -> None:
    """Send what is still buffered for standard output nowhere, so that the interpreter's own flush is quiet."""
    # The recipe of the Python documentation (signal, "Note on SIGPIPE"); ValueError: no real file, as in a test.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        output = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, output)
        os.close(null)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot write standard output: {reason}", "name a file with -o") from error
