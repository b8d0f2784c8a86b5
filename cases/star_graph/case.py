"""The case as the commands see it: states in, reports out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.case import Case, Options, Progress
from certify.cases.kernel import trace_kernel
from certify.cases.kernel.kernel import Kernel
from certify.cases.kernels import CaseKernel, case_report, kernel_claims

from certify.arithmetic import Format, format_named
from certify.certificate import Claim, Report, Verdict
from certify.states import Saved

from .circuit_claims import circuit_claims
from .decoded import decoded_claim
from .exact_claims import exact_claims, stated_instances
from .flow_claims import flow_claims
from .instances import Law, one_hot, tokens
from .layer import layer
from .state import CONTROLS, WEIGHTS, State, circuit_weights, saved_from, state_from
from .stored import decoding, factorisation

#: No verdict rests on the second step, which the circuit fails.
SECOND = "margin/stored-second"
DEFAULT_FORMATS = ("float16", "bfloat16", "float32", "float64")


class StarGraph(Case):
    """See `certify.cases.case.Case`."""

    name = "star_graph"
    title = "the star-graph circuit (a two-layer disentangled transformer that plans by multi-token prediction)"

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """The circuit at every gamma, the audit of published statements, the stored weights, and the kernel in each format."""
        state = state_from(saved)
        named = {format_named(name) for name in options.formats or DEFAULT_FORMATS}
        formats = sorted(named, key=lambda format: (format.precision, format.emax, format.name))
        total = 4 + len(formats)
        progress(0, total, "the circuit at every gamma")
        claims = circuit_claims(state.law, state.gamma)
        progress(1, total, "expectations and published statements")
        claims += [*exact_claims(state.law), *stated_instances(state.examples, state.ends)]
        progress(2, total, "flows")
        claims += flow_claims()
        progress(3, total, "stored weights")
        claims += [factorisation(state.law, state.probe), *decoding(state.law, state.exact_weights)]
        required = [c.id for c in claims if c.kind != "counterexample" and c.id != SECOND]
        kernel, by_format = kernel_of(state, options.order), []
        for k, format in enumerate(formats):
            progress(4 + k, total, f"the kernel in {format.name}")
            by_format.append(self._in_format(kernel, format, state, options))
            claims += by_format[-1]
        progress(total, total, "done")
        if not options.formats:  # the coarsest format that is enough
            by_format = [next((x for x in by_format if all(c.verdict is Verdict.CERTIFIED for c in x)), by_format[-1])]
        required += [c.id for mine in by_format for c in mine if c.parameters.get("method") != "adjoint"]
        return case_report(self.name, saved, claims, kernels=[kernel], controls=CONTROLS, required=required)

    def _in_format(self, kernel: CaseKernel, format: Format, state: State, options: Options) -> list[Claim]:
        """Rounding and range at the stored weights, and what is decoded at those of the circuit."""
        # majorant bounds are for kernels of sums and products alone
        found = [c for c in kernel_claims(kernel, format, options) if c.parameters.get("method") != "majorant"]
        decoded = None
        if found[0].verdict is Verdict.CERTIFIED:
            decoded = decoded_claim(kernel, format, state.law, found[0])
        return [*found, *([] if decoded is None else [decoded])]

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """The circuit at gamma = 4 under the uniform law."""
        sentence = "The circuit of Corollary 1 at gamma = 4; all 24 edge orders of the star graph, equally likely"
        return saved_from(circuit_weights(4.0), Fraction(4)), sentence


def kernel_of(state: State, order: str) -> CaseKernel:
    """The layer on one labeling of every edge order, at the stored weights."""
    return CaseKernel(
        "circuit", trace_kernel(on(state.law), state.weights, order=order), {name: name for name in WEIGHTS}
    )


def on(law: Law) -> Kernel:
    """The kernel on the edge orders of a law: a function of the weights."""
    Zs = np.array([one_hot(tokens(order)) for order in law.orders])

    def circuit(content_1: Any, position_1: Any, content_2: Any, position_2: Any) -> dict[str, Any]:
        return layer(Zs, content_1, position_1, content_2, position_2)

    return circuit


CASE = StarGraph()
