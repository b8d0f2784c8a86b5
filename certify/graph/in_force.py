"""The format that instructions are made in: the program's, one the kernel asks for, or that of NumPy's promotion.

Formats are names here (`certify.arithmetic.format_named` knows them); "" is the format of the program, which is chosen when
the graph is evaluated. An operation is in

1. the format of the innermost `certify.precision` block around it, if there is one;
2. else the promoted format, as NumPy would choose it, if every operand is an array of a format of its own (made by `astype`,
   by `certify.cast` or from such arrays), Python numbers aside;
3. else the program's format.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[str | None] = ContextVar("asked", default=None)
_promoted: ContextVar[str] = ContextVar("promoted", default="")

#: The pairs that NumPy and ml-dtypes promote to the wider one.
_WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}


def current_format() -> str:
    """The name of the format in force."""
    asked = _asked.get()
    return _promoted.get() if asked is None else asked


@contextmanager
def asking(format: str) -> Iterator[None]:
    """Instructions made inside are in this format, whatever their operands."""
    token = _asked.set(format)
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def promoting(format: str) -> Iterator[None]:
    """Instructions made inside are in this format, unless a block asks for another."""
    token = _promoted.set(format)
    try:
        yield
    finally:
        _promoted.reset(token)


def promotion(formats: set[str]) -> str | None:
    """The format that operands of these formats are promoted to; None if NumPy has none for them and no block asks."""
    return "" if _asked.get() is not None else wider_of(formats)


def wider_of(formats: set[str]) -> str | None:
    """The format that NumPy promotes numbers of these formats to, the program's if one is in that; None if it has none."""
    if "" in formats or not formats:
        return ""
    wide = [name for name in formats if all(other == name or name in _WIDER.get(other, ()) for other in formats)]
    return wide[0] if wide else None
