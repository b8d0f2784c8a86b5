"""How accurate a math library is: the assumption under which calls of exp, log, tanh and sigmoid have a bound.

**Definition.** ulp(y) of a real number y in a format is 2**(max(floor(log2 |y|), emin) - p + 1), and 2**(emin - p + 1) for
y = 0: the spacing of the format at the *exact* result y, above a power of two where y is one, and that of the subnormal
numbers below 2**emin. A function is within U ulps if, for every number x of the format at which its exact value y is defined
and |y| + U ulp(y) does not overflow, it returns a number r of the format with |r - y| <= U ulp(y), inside the closure of the
function's range: [0, inf) for exp, [-1, 1] for tanh, [0, 1] for sigmoid. With flush to zero, r may become 0 where
|r| < 2**emin. U = 0.5 stands for correctly rounded results, ties to even. Nothing else is assumed: not monotonicity, not
symmetry, not exact values at 0 or 1.

Published figures are largest errors that were *observed*, seldom proved ones. A claim states the numbers it assumes.
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
    ulps : for `exp`, `log`, `tanh`, `sigmoid`: the error in ulps, at least 0.5; `otherwise` for those not given.

    Raises
    ------
    InputRejected : an unknown function, or an error that is below 0.5 or not finite.
    """

    name: str
    ulps: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ulps", MappingProxyType({k: float(u) for k, u in self.ulps.items()}))
        for function, error in [*self.ulps.items(), ("any function", self.otherwise)]:
            if function != "any function" and function not in CALLS:
                raise InputRejected(f"the library {self.name} gives ulps of {function!r}", f"use {', '.join(CALLS)}")
            if not CORRECT <= error < float("inf"):
                raise InputRejected(
                    f"the library {self.name} gives {function} {error} ulps", "give a finite number, at least 0.5"
                )

    def of(self, function: str, format: Format) -> float:
        """The error of a function in ulps. Raises InputRejected if a format is so short that it says nothing."""
        error = self.ulps.get(function, self.otherwise)
        if error * 2.0 ** (1 - format.precision) >= 1:
            raise InputRejected(
                f"an error of {error} ulps is all of a result of {function} in {format.name}", "use a longer format"
            )
        return error

    def assumptions(self, functions: Iterable[str]) -> list[str]:
        """One sentence for each of these functions, as a claim states it."""
        return [
            f"{function} of {self.name} returns the correctly rounded result"
            if self.ulps.get(function, self.otherwise) == CORRECT
            else f"{function} of {self.name} returns a number within {self.ulps.get(function, self.otherwise)!r} ulp of the "
            "exact result, in the range of the function"
            for function in CALLS
            if function in set(functions)
        ]


CORRECTLY_ROUNDED = Libm("a correctly rounded library", otherwise=CORRECT)
ONE_ULP = Libm("the math library")
TWO_ULPS = Libm("a math library within 2 ulps", otherwise=2.0)

#: Published figures by library and format. Sources: GNU C Library manual, "Known Maximum Errors in Math Functions" (x86_64),
#: which rounds observed errors up to integers; NumPy 1.17 release notes (float32 exp and log with AVX2 and AVX512F) and 1.22
#: release notes (vectorised functions within 4 ulps); CUDA C++ Programming Guide, mathematical functions appendix, whose
#: figures are differences from the correctly rounded result, hence half an ulp is added here. `sigmoid` is in none of them.
LIBRARIES = {
    "glibc/float32": Libm("glibc in float32", {"exp": 1.0, "log": 1.0, "tanh": 2.0}),
    "glibc/float64": Libm("glibc in float64", {"exp": 1.0, "log": 1.0, "tanh": 2.0}),
    "numpy/float32": Libm("numpy in float32", {"exp": 2.52, "log": 3.83, "tanh": 4.0}),
    "numpy/float64": Libm("numpy in float64", {"exp": 4.0, "log": 4.0, "tanh": 4.0}),
    "cuda/float32": Libm("CUDA in float32", {"exp": 2.5, "log": 1.5, "tanh": 2.5}),
    "cuda/float64": Libm("CUDA in float64", {"exp": 1.5, "log": 1.5, "tanh": 2.5}),
}


def library(name: str) -> Libm:
    """The library of that name: `correct`, `1ulp`, `2ulp` or one of `LIBRARIES`. Raises InputRejected."""
    named = {"correct": CORRECTLY_ROUNDED, "1ulp": ONE_ULP, "2ulp": TWO_ULPS, **LIBRARIES}
    if name not in named:
        raise InputRejected(f"there is no math library {name!r}", f"use one of {', '.join(named)}")
    return named[name]
