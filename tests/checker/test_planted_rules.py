"""A bug planted in the producer's rules for orders, formats or functions changes a report on a small kernel: it is rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from checker_kernels import inputs
from checker_reports import Report, findings, kernel_of
from test_planted_bugs import Plant, forgetting, instead

from certify.arithmetic import Format
from certify.arithmetic.libm import Libm
from certify.rounding import compiled
from certify.rounding.anyorder import EveryOrder
from certify.rounding.functions import Functions
from certify.rounding.local import ERROR, Local
from certify.rounding.running import Running


@pytest.fixture(autouse=True)
def _by_numpy() -> Iterator[None]:
    """A bug that is planted in NumPy's rules does not reach the compiled loops."""
    with compiled.always(False):
        yield


def without(*rows: int) -> Callable[[Any], Any]:
    """A rule that returns zeros in some places of what it returns."""
    return lambda good: lambda *args: tuple(x * (k not in rows) for k, x in enumerate(good(*args)))


def unrounded(good: Any) -> Any:
    """The error of a value is what it was before."""

    def bad(self: Any, a: Any) -> Any:
        result = np.asarray(good(self, a)).copy()
        result[ERROR] = a[ERROR]
        return result

    return bad


def nothing(good: Any) -> Any:
    """A term that is left out."""
    return lambda self, *args: good(self, *args) * 0


#: what is wrong, how, and the kernel, format and order that show it
BUGS: list[tuple[str, Plant, str, str, str]] = [
    ("a total is not rounded", instead(Running, "narrow", unrounded), "sums", "bfloat16", "serial:float32"),
    ("the accumulator's h for the total", instead(Running, "narrow", lambda good: lambda self, a:
        unrounded(good)(self, a) + self.format.u / 256 * np.array([0, 0, 1])[:, None]), "sums", "float16", "pairwise:float64"),
    ("a quotient forgets its divisor", forgetting("div", 1), "layer_norm", "float16", "blocked(2)"),
    ("a root forgets its operand", forgetting("sqrt", 0), "norm", "tf32", "pairwise"),
    ("a logarithm forgets its operand", forgetting("log", 0), "logsumexp", "bfloat16", "fma"),
    ("exp forgets its operand", forgetting("exp", 0), "attention", "float32", "serial"),
    ("tanh forgets its operand", forgetting("tanh", 0), "gates", "float32", "any-order"),
    ("a library without ulps", instead(Functions, "_spread", nothing), "attention", "float64", "any-order"),
    ("ulps of a format of one bit more", instead(Functions, "_power", lambda good: lambda self, x:
        good(self, x) / 2), "logsumexp", "float16", "serial"),
    ("a selection forgets a branch", forgetting("select", 2), "chosen", "bfloat16", "serial"),
    ("a maximum forgets an operand", forgetting("max", 0), "chosen", "e4m3", "serial"),
    ("a fused product forgets its addend", forgetting("fma", 2), "sums", "float32", "fma"),
    ("the additions of any order but the last are exact", instead(EveryOrder, "_drift", lambda good:
        lambda self, *args: (good(self, *args)[0] * 0, good(self, *args)[1])), "sums", "float32", "any-order"),
    ("products of any order are not rounded", instead(EveryOrder, "_products", without(2)), "sums", "float16", "any-order"),
    ("flushing moves nothing", instead(Local, "_flushed", nothing), "tiny", "float16,ftz", "serial"),
    ("underflow moves nothing", lambda p: p.setattr(Format, "omega", property(lambda f: 0.0)), "tiny", "float16", "any-order"),
    ("a largest number that is a NaN", lambda p: p.setattr(
        Format, "largest", property(lambda f: float(np.ldexp(2 - 2 * f.u, f.emax)))), "sums", "e4m3", "serial"),
    ("a library's sentence is lost", instead(Libm, "assumptions", lambda good:
        lambda self, functions: good(self, functions)[:1]), "gates", "float32", "serial"),
]  # fmt: skip


def tiny(x: Any) -> Any:
    """Products near the smallest normal number."""
    return {"y": x * x * x, "s": x @ (x * x)}


def report_on(kernel: str, format: str, order: str) -> tuple[Report, bytes, Any]:
    """A report on one of the small kernels, at its inputs and on a ball."""
    at = inputs() | {"tiny": (tiny, {"x": np.array([2.0**-5, 3 * 2.0**-7, -(2.0**-6)]) * 1.1}, "x")}
    function, given, center = at[kernel]
    return kernel_of(function, given, formats=format, order=order, center=center, radius=2.0**-10)


@pytest.mark.parametrize(("what", "plant", "kernel", "format", "order"), BUGS, ids=[x[0] for x in BUGS])
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, what: str, plant: Plant, kernel: str, format: str, order: str
) -> None:
    """The report changes, and a claim that changed is rejected; without the bug, none is."""
    good, state, files = report_on(kernel, format, order)
    assert all(f.verdict == f.claimed for f in findings(good, state, files).values())
    plant(monkeypatch)
    bad, state, files = report_on(kernel, format, order)
    monkeypatch.undo()
    changed = {
        x["id"]
        for x, y in zip(bad["claims"], good["claims"], strict=True)
        if x | {"observed": 0} != y | {"observed": 0}
    }
    found = findings(bad, state, files)
    assert changed & {f.id for f in found.values() if f.verdict == "rejected"}, [
        (f.id, f.sentence) for f in found.values()
    ]
