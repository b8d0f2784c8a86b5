"""How accurate a math library is: the assumption under which calls of exp, log, tanh and sigmoid have a bound.

**Definition.** ulp(y) of a real number y in a format is 2**(max(floor(log2 |y|), emin) - p + 1), and 2**(emin - p + 1) for y
= 0: the spacing of the format at the *exact* result y, above a power of two where y is one, and that of the subnormal numbers
below 2**emin. A function is within U ulps if, for every number x of the format at which its exact value y is defined and |y|
+ U ulp(y) does not overflow, it returns a number r of the format with |r - y| <= U ulp(y), inside the closure of the
function's range: [0, inf) for exp, [-1, 1] for tanh, [0, 1] for sigmoid. A format that flushes has no subnormal numbers: a
library of it returns 0 instead of an r with |r| < 2**emin, and may do so where |r| = 2**emin; one that returns subnormal
numbers to a program that flushes is not covered. U = 0.5 stands for correctly rounded results, ties to even. Nothing else is
assumed: not monotonicity, not symmetry, not exact values at 0 or 1.

Published figures are largest errors that were *observed*, seldom proved ones. A claim states the numbers it assumes.
`benchmarks/libm.py` measures them.

**Theorem (rounded from a wider format).** If a float32 library is within V <= 100 ulps of float32, rounding its results to a
format of precision p <= 11, exponents within those of float32, is within 1 ulp of that format. *Proof.* ulp of float32 at y is
at most 2**(p - 24) ulp(y), so r is within w = V 2**-13 < 1/80 ulps of y. If r and y are in one binade, rounding adds half an
ulp. If a power of two is between them, it is a number of the format within w of r, so rounding moves r by at most w. QED

**Theorem (`certify.sigmoid` in NumPy).** It computes s = exp(-|x|), then s / (1 + s) or 1 / (1 + s). If exp is within U ulps,
it is within 2 U + 2 ulps, but for terms of the order of u U**2. *Proof.* Both are functions of s with a derivative of at most
1 / (1 + s)**2 in magnitude. For y = s / (1 + s) >= s / 2, ulp(s) <= 2 ulp(y), and for y = 1 / (1 + s) >= 1 / 2, ulp(s) <=
ulp(1) = 2 ulp(y): so an error of U ulp(s) moves y by 2 U ulp(y) at most. Rounding 1 + s moves y by u y <= ulp(y), and the last
quotient is rounded by half an ulp, or by one if it is in the next binade. QED
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from certify.arithmetic.formats import Format
from certify.errors import InputRejected

CALLS = ("exp", "log", "tanh", "sigmoid")
CORRECT = 0.5


@dataclass(frozen=True)
class Libm:
    """A library whose functions are within some ulps of the exact function, see the definition above.

    Parameters
    ----------
    name : as claims shall call it.
    ulps : for `exp`, `log`, `tanh`, `sigmoid`: the error in ulps, at least 0.5.
    otherwise : the error of functions that are not in `ulps`; None if nothing is known of them: calling one is refused.

    Raises
    ------
    InputRejected : an unknown function, or an error that is below 0.5 or not finite.
    """

    name: str
    ulps: Mapping[str, float] = field(default_factory=dict)
    otherwise: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ulps", MappingProxyType({k: float(u) for k, u in self.ulps.items()}))
        others = {} if self.otherwise is None else {"any function": self.otherwise}
        for function, error in {**self.ulps, **others}.items():
            if function != "any function" and function not in CALLS:
                raise InputRejected(f"the library {self.name} gives ulps of {function!r}", f"use {', '.join(CALLS)}")
            if not CORRECT <= error < float("inf"):
                raise InputRejected(
                    f"the library {self.name} gives {function} {error} ulps", "give a finite number, at least 0.5"
                )

    def of(self, function: str, format: Format) -> float:
        """The error of a function in ulps.

        Raises
        ------
        InputRejected : nothing is known of the function, or a format is so short that the error says nothing.
        """
        error = self._error(function)
        if error * 2.0 ** (1 - format.precision) >= 1:
            raise InputRejected(
                f"an error of {error} ulps is all of a result of {function} in {format.name}", "use a longer format"
            )
        return error

    def assumptions(self, functions: Iterable[str]) -> list[str]:
        """One sentence for each of these functions, as a claim states it."""
        called = set(functions)
        return [
            f"{function} of {self.name} returns the correctly rounded result"
            if self._error(function) == CORRECT
            else f"{function} of {self.name} returns a number within {self._error(function)!r} ulp of the exact result, in "
            "the range of the function"
            for function in CALLS
            if function in called
        ]

    def _error(self, function: str) -> float:
        error = self.ulps.get(function, self.otherwise)
        if error is None:
            raise InputRejected(
                f"no error of {function} is known for {self.name}", f"write {function} out, or give a certify.Libm"
            )
        return error


CORRECTLY_ROUNDED = Libm("a correctly rounded library", otherwise=CORRECT)
ONE_ULP = Libm("the math library")
TWO_ULPS = Libm("a math library within 2 ulps", otherwise=2.0)

#: Published figures by library and format, for the functions that have one. Where a source compares with the correctly rounded
#: result instead of the exact one, half an ulp is added here.
#:
#: glibc: GNU C Library manual, "Known Maximum Errors in Math Functions" (x86_64: exp and log 1, tanh 2), which compares with
#: the rounded result and rounds up to integers; Zimmermann, "Accuracy of Mathematical Functions" (hal-03141101), finds no more.
#:
#: numpy: release notes of 1.17 (float32: exp 2.52, log 3.83) and of 1.22 (AVX-512 versions within 4 ulps); for float16 with
#: AVX512-FP16, NumPy's own test over all numbers (exp 1.27, log 1.80, tanh 3.00). `sigmoid` is `certify.sigmoid` run by NumPy:
#: by the theorem above. NumPy has no bfloat16; extensions call float32 and round: by the other theorem.
#:
#: torch (CPU): exp, log and tanh of a tensor come from SLEEF (`_u10`: 1 ulp), from MKL's vector functions in their accurate
#: mode (1 ulp), or, without vector instructions, from the C library: the largest of these. float16 and bfloat16 are computed in
#: float32 and rounded. Its sigmoid is 1 / (1 + exp(-x)), which returns 0 where exp overflows: many ulps, so no figure.
#: torch-fused: softmax, logsumexp and attention may call `exp_u20`, of 20 ulps according to a comment in ATen's vec512_float.h,
#: which also returns 0 where the exact value is below the normal numbers: the figure holds where none is. In bfloat16 and
#: float16 attention calls `fexp_u20`: t = x log2(e), then 2**floor(t) (1 + f - P(f)), P a cubic of f = t - floor(t), which is
#: within 1.08e-4 of 2**t. Normal results have |t| <= 126: t, t - P and the result, put together from 23 fractional bits of
#: t - P, are rounded by 2**-18 each, and the constant counts for half of that. 1.08e-4 + 3.5 * 2**-18 < 2048 * 2**-24, and
#: 2**-24 |y| <= ulp(y).
#:
#: cuda: CUDA C++ Programming Guide, mathematical functions appendix, differences from the correctly rounded result.
LIBRARIES = {
    "glibc/float32": Libm("glibc in float32", {"exp": 1.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
    "glibc/float64": Libm("glibc in float64", {"exp": 1.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
    "numpy/bfloat16": Libm("numpy in float32, rounded", dict.fromkeys(CALLS, 1.0), otherwise=None),
    "numpy/float16": Libm("numpy in float16", {"exp": 1.27, "log": 1.8, "tanh": 3.0, "sigmoid": 5.0}, otherwise=None),
    "numpy/float32": Libm("numpy in float32", {"exp": 2.52, "log": 3.83, "tanh": 4.0, "sigmoid": 7.5}, otherwise=None),
    "numpy/float64": Libm("numpy in float64", {"exp": 4.0, "log": 4.0, "tanh": 4.0, "sigmoid": 10.5}, otherwise=None),
    "torch/bfloat16": Libm("torch in bfloat16", {"exp": 1.0, "log": 1.0, "tanh": 1.0}, otherwise=None),
    "torch/float16": Libm("torch in float16", {"exp": 1.0, "log": 1.0, "tanh": 1.0}, otherwise=None),
    "torch/float32": Libm("torch in float32", {"exp": 1.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
    "torch/float64": Libm("torch in float64", {"exp": 1.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
    "torch-fused/float32": Libm("fused kernels of torch in float32", {"exp": 20.0, "log": 1.5}, otherwise=None),
    "torch-flash/float32": Libm("attention of torch in 16 bits", {"exp": 2048.0}, otherwise=None),
    "cuda/float32": Libm("CUDA in float32", {"exp": 2.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
    "cuda/float64": Libm("CUDA in float64", {"exp": 1.5, "log": 1.5, "tanh": 2.5}, otherwise=None),
}
_NAMED = {"correct": CORRECTLY_ROUNDED, "1ulp": ONE_ULP, "2ulp": TWO_ULPS, **LIBRARIES}
FAMILIES = ("numpy", "torch")
_LENGTHS = {8: "bfloat16", 11: "float16", 24: "float32", 53: "float64"}


def library(name: str, formats: Iterable[Format]) -> Libm:
    """The library of that name: `correct`, `1ulp`, `2ulp`, one of `LIBRARIES`; or `numpy` or `torch`, for these formats.

    The last two have the figures of the shortest of bfloat16, float16, float32 and float64 with the precision of the format; of
    several formats, for each function the largest.

    Raises
    ------
    InputRejected : there is none.
    """
    if name in FAMILIES:
        chosen = [next(known for p, known in _LENGTHS.items() if format.precision <= p) for format in formats]
        return _worst([LIBRARIES[f"{name}/{format}"] for format in dict.fromkeys(chosen)])
    if name not in _NAMED:
        raise InputRejected(
            f"there is no math library {name!r}", f"use one of {', '.join((*FAMILIES, *_NAMED))}, or a certify.Libm"
        )
    return _NAMED[name]


def chosen_library(libm: str | Libm | None, formats: Iterable[Format]) -> Libm:
    """What is assumed of calls in `formats`: what is given, as it is or by name; by default what is published of NumPy."""
    return libm if isinstance(libm, Libm) else library("numpy" if libm is None else libm, formats)


def _worst(libraries: list[Libm]) -> Libm:
    if len(libraries) == 1:
        return libraries[0]
    known = [f for f in CALLS if all(f in each.ulps for each in libraries)]
    ulps = {function: max(each.ulps[function] for each in libraries) for function in known}
    return Libm(" and ".join(each.name for each in libraries), ulps, otherwise=None)
