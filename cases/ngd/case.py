"""The case as commands see it."""

from __future__ import annotations

from fractions import Fraction

from certify.cases.case import Case, Options, Progress
from certify.cases.kernel import trace_kernel
from certify.cases.kernels import CaseKernel, case_report, kernel_claims
from certify.cases.ngd.averages import MOST_EXAMPLES, average_claim
from certify.cases.ngd.batch import batch_claims
from certify.cases.ngd.corpus import demonstration
from certify.cases.ngd.depth import depth_claims
from certify.cases.ngd.equalities import MOST_SYMBOLS, enclosure_claims, identity_claims
from certify.cases.ngd.execution import program_claim
from certify.cases.ngd.layer import layer
from certify.cases.ngd.lemma import MOST_DIMENSIONS, lemma_claim
from certify.cases.ngd.population import minimiser_claim, zero_claim
from certify.cases.ngd.separation import separation_claims
from certify.cases.ngd.state import Context, State, fraction, state_of
from certify.cases.ngd.trained import trained_claims, trained_kernel

from certify.arithmetic import format_named
from certify.certificate import Claim, Report, Verdict
from certify.errors import InputRejected
from certify.states import Saved

FORMATS = ("float16", "bfloat16", "float32", "float64")


class Ngd(Case):
    """See `certify.cases.case.Case`."""

    name = "ngd"
    title = "softmax attention as normalised gradient descent"
    demo_options = Options(order="any-order")

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """All claims about the contexts, the batch and the population problems of a state; see README.md."""
        state = state_of(saved)
        tasks = len(state.contexts) + len(state.population) + len(state.closed) + 1
        claims: list[Claim] = []
        kernels: list[CaseKernel] = []
        sizes = {(c.n, c.d) for c in state.contexts if c.layers and not c.V and c.n * c.d <= MOST_SYMBOLS}
        for n, d in sorted(sizes):
            claims += identity_claims(n, d)
            claims += [average_claim(n, d)] if n <= MOST_EXAMPLES and d <= MOST_DIMENSIONS else []
        for done, context in enumerate(state.contexts):
            progress(done, tasks, f"context {context.name}")
            if context.V and context.W:
                kernels.append(trained_kernel(saved, context, options.order))
                claims += trained_claims(context, context.V, context.W) if context.layers else []
                claims += _rounding(kernels[-1], options)
            elif context.layers:
                kernels.append(layer_kernel(saved, context, options.order))
                claims += self._layers(context, kernels[-1], options)
            if context.steps:
                claims += separation_claims(context, state.accuracies)
        claims += self._training(state, progress, len(state.contexts), tasks)
        required = [claim.id for claim in claims if _counts(claim)]
        return case_report("ngd", saved, claims, kernels=kernels, controls=state.controls, required=required)

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """Contexts by the generator of `corpus`, which names them."""
        saved = demonstration()
        sentence = (
            "Contexts of 5 to 500 labelled examples, a batch of eight, and the training problem of a layer of attention"
        )
        return saved, sentence

    def _layers(self, context: Context, kernel: CaseKernel, options: Options) -> list[Claim]:
        """Equality over the layers of one context, and their rounding in every format."""
        claims = enclosure_claims(context)
        if context.n * context.d <= MOST_SYMBOLS:
            claims.append(program_claim(context, kernel, float(fraction(context.C1)), float(fraction(context.C2))))
        if context.d <= MOST_DIMENSIONS:
            claims.append(lemma_claim(context))
        for name in options.formats or FORMATS:
            format = format_named(name)
            local = kernel_claims(kernel, format, options, center="theta", radius=options.radius)
            claims += [*local, *depth_claims(context, kernel, format, local[0])]
        return claims

    def _training(self, state: State, progress: Progress, done: int, tasks: int) -> list[Claim]:
        """The training problems of a state."""
        claims: list[Claim] = []
        for d, s in state.population:
            progress(done, tasks, f"training, d = {d}")
            claims.append(minimiser_claim(d, s))
            done += 1
        for n, d, s in state.closed:
            progress(done, tasks, f"training at 0, n = {n}")
            claims.append(zero_claim(n, d, s))
            done += 1
        if state.batch is not None:
            progress(done, tasks, "training on a batch")
            claims += batch_claims(state.batch)
        return claims


def layer_kernel(saved: Saved, context: Context, order: str) -> CaseKernel:
    """One layer at the start of a context; its two scalars are constants of the kernel.

    Raises
    ------
    InputRejected : one of them is no binary64 number, so that the kernel would compute another layer.
    """
    inputs = {"Z": saved.tensors[f"Z.{context.name}"], "theta": saved.tensors[f"start.{context.name}"]}
    C1, C2 = float(fraction(context.C1)), float(fraction(context.C2))
    if Fraction(C1) != fraction(context.C1) or Fraction(C2) != fraction(context.C2):
        raise InputRejected(
            f"C1 or C2 of context {context.name!r} is no binary64 number", "take dyadic ones where layers are run"
        )
    traced = trace_kernel(lambda Z, theta: layer(Z, theta, C1, C2), inputs, order=order, name="layer")
    return CaseKernel(f"layer-{context.name}", traced, {"Z": f"Z.{context.name}", "theta": f"start.{context.name}"})


def _rounding(kernel: CaseKernel, options: Options) -> list[Claim]:
    """Rounding and range of a kernel in every format."""
    formats = [format_named(name) for name in options.formats or FORMATS]
    return [x for f in formats for x in kernel_claims(kernel, f, options, center="theta", radius=options.radius)]


def _counts(claim: Claim) -> bool:
    """Whether the verdict rests on a claim: not on comparisons, nor on formats that are not enough or counts not reached."""
    if claim.parameters.get("method") in ("majorant", "adjoint"):
        return False
    by_format = claim.kind in ("rounding", "range", "order") or "format" in claim.parameters
    return not by_format or claim.verdict is Verdict.CERTIFIED


CASE = Ngd()
