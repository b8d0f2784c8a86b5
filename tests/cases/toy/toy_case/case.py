"""The case: a kernel, a comparison, and a statement that is tested."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.case import Case, Options, Progress
from certify.cases.controls import control
from certify.cases.kernel import trace_kernel
from certify.cases.kernels import CaseKernel, case_report, kernel_claims

from certify.arithmetic import format_named
from certify.certificate import Claim, Report, Verdict
from certify.states import Saved


def mean(x: Any) -> Any:
    """The mean of a row x (n,)."""
    return x.sum() / x.shape[0]


class Toy(Case):
    """See `certify.cases.case.Case`."""

    name = "toy"
    title = "the mean of a row"

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """Rounding of the mean, and that it lies below the largest entry by a margin that is a rational number."""
        x = np.asarray(saved.tensors["x"], dtype=np.float64)
        kernel = CaseKernel("mean", trace_kernel(mean, {"x": x}, order=options.order), {"x": "x"})
        claims = [
            claim
            for name in options.formats or ("float16", "float32")
            for claim in kernel_claims(kernel, format_named(name), options)
        ]
        exact = [Fraction(v) for v in x.tolist()]
        margin = (max(exact) - sum(exact) / len(exact)) * control(saved, "share")
        claims.append(
            Claim(
                id="margin/below-largest",
                kind="margin",
                statement="The mean of x lies below the share of its distance from 0 to the largest entry by margin.",
                semantics="real",
                bounds={"margin": str(margin)},
                verdict=Verdict.CERTIFIED if margin > 0 else Verdict.UNDECIDED,
                reason="" if margin > 0 else "all entries are equal",
                theorem="README.md",
            )
        )
        claims.append(
            Claim(
                id="counterexample/mean-is-median",
                kind="counterexample",
                statement="The mean of x is an entry of x.",
                semantics="real",
                parameters={"published": "the mean is one of the entries", "source": "nowhere"},
                verdict=Verdict.REFUTED,
                reason="the mean differs from every entry",
                witness={"entries": [str(v) for v in exact]},
                theorem="README.md",
            )
        )
        return case_report("toy", saved, claims, kernels=[kernel], controls=["share"])

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """Four numbers."""
        return Saved({"x": np.array([1.0, 2.5, 3.25, 7.0])}, {"share": "1/2"}), "Four numbers"


CASE = Toy()
