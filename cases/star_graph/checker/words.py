"""The sentences of the claims, their published counterparts, and the checks of words that all claims of this case share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from certify.checker.document import Claim, Finding, Rejected, agrees, number, proved, shown

README = "cases/star_graph/README.md"
PAPER = "arXiv 2604.11912"

#: By the first two parts of an id: the anchor of its proof, and the sentence.
SENTENCES: dict[str, tuple[str, str]] = {
    "identity/factorisation": (
        "factorisation",
        "With the weights `probe`, for one labeling of each of the {orders} edge orders, the differences between "
        "f1 and f2 on the residual stream and in the factorised form have enclosures of radius at most `radius` "
        "that contain 0; that is no proof of equality by itself.",
    ),
    "identity/row-sums": (
        "row-sums",
        "For all weights w_1, ..., w_10 with the distribution s = w / sum(w), and for every u, the entries of "
        "J(s) u sum to 0, as an identity of polynomials; so every row of dL/dW0 and dL/dW1 of layer 2 and of "
        "dL/dW1 of layer 1 sums to 0 in every state of the model.",
    ),
    "identity/shallow-output": (
        "circuit",
        "In all {instances} instances and at every gamma the circuit has f2(Z)[end] = (e^gamma + 1) / (e^gamma + "
        "9), so that L2 = ln((e^gamma + 9) / (e^gamma + 1)).",
    ),
    "identity/decoupling": (
        "decoupling",
        "At zero weights the mean gradient of L2 ({law}; labels averaged) is 0 in both layer 2 weights and in "
        "every row of W1 of layer 1 but row T, which is `row_1`, ..., `row_10`; in W0 of layer 1 it is "
        "`diagonal` on the diagonal and `off` off it.",
    ),
    "identity/stationary": (
        "stationary",
        "At one-hot attention (every row of S1 at its predecessor, row T of S2 at t_end) the gradients of L2 and "
        "of L1a with respect to the logits of both layers are exactly 0 in all {instances} instances; L1b is "
        "infinite there and not covered.",
    ),
    "identity/arithmetic": (
        "audit",
        "(1/100 - 1/648)/10 = 548/648000 and (1/648 + 2/800)/10 = 2096/5184000.",
    ),
    "identity/star-path": (
        "instances",
        "In the directed graph of the {edges} edges `star_edges` exactly one path leads from {start} to {end}: {path}.",
    ),
    "identity/countdown": (
        "instances",
        "({a} - {b}) / ({c} - {d}) = {target} exactly.",
    ),
    "identity/formula": (
        "instances",
        "`assignment` satisfies each of the {clauses} clauses of `clauses`.",
    ),
    "margin/first-step": (
        "circuit",
        "At gamma = {gamma} the circuit's first step is right in all {instances} instances: f1[v] - f1[a] >= "
        "`margin` for every other label a.",
    ),
    "margin/threshold": (
        "threshold",
        "For every gamma >= `high` the circuit's first step is right in all {instances} instances; for every "
        "gamma from 0 to `low` it is wrong in the 30240 instances of the edge order {worst}.",
    ),
    "margin/always-right": (
        "threshold",
        "For every gamma >= 0 the circuit's first step is right in all {instances} instances: f1[v] - f1[a] >= "
        "`margin` for every other label a.",
    ),
    "margin/second-step": (
        "second-step",
        "For every gamma >= 0 the circuit's second step is wrong in all {instances} instances: f1(Z')[v] - "
        "f1(Z')[end] >= `margin`.",
    ),
    "margin/second-gradient": (
        "second-gradient",
        "For every gamma >= {least}, in each of the {instances} instances, row T-1 of the gradient of L1b with "
        "respect to W1 of layer 2 at the circuit has Euclidean norm >= `margin`.",
    ),
    "margin/mean-second-gradient": (
        "second-gradient",
        "For every gamma >= {least} row T-1 of the mean gradient ({law}) of L1b with respect to W1 of layer 2 at "
        "the circuit has Euclidean norm >= `margin`.",
    ),
    "margin/mean-slope": (
        "slopes",
        "At zero weights ({law}) E dmu/dw(1) <= -`margin` and E dmu/dw(k) >= `margin` for k = 2..9, mu = f1(Z)[v].",
    ),
    "margin/phase-one": (
        "phase-one",
        "Let the end node stand at each of {m} context positions with equal probability and at no other; on the "
        "gradient flow of Phase I from 0, x = e^(w(1) - w_e) has x + {m_plus_1} ln x - {m}/x + {m_minus_1} - "
        "`rate` t >= `margin` = 0 for every t >= 0, and w(1) - w(k) >= ln x for the other offsets: S1 tends to "
        "the predecessor pointer.",
    ),
    "margin/stored-first": (
        "stored",
        "With the stored weights the first step is right for {covered}: f1(Z)[v] - f1(Z)[a] >= `margin` > 0 for "
        "every other label a.",
    ),
    "margin/stored-second": (
        "stored",
        "With the stored weights the second step is right for {covered}: f1(Z')[end] - f1(Z')[a] >= `margin` > 0 "
        "for every other label a.",
    ),
    "margin/decoded": (
        "formats",
        "In {format} the kernel circuit with the circuit's weights decodes v in all {instances} instances at "
        "each gamma of {listed}: computed f1[v] exceeds the computed entry of every other label by at least "
        "`margin`; at gamma = {wrong} it decodes another label in some edge order.",
    ),
    "enclosure/first-constant": (
        "constants",
        "The supremum of e^gamma (1 - f1(Z)[v]) over all gamma >= 0 and all {instances} instances, at the "
        "circuit, lies in [`low`, `high`].",
    ),
    "enclosure/attention-constant": (
        "constants",
        "The supremum of e^gamma (1 - S2[T, t_end]) over all gamma >= 0 and all {instances} instances, at the "
        "circuit, lies in [`low`, `high`].",
    ),
    "enclosure/first-limit": (
        "constants",
        "For every gamma >= {least} and every edge order, e^gamma (1 - f1(Z)[v]) - c is in [`low`, `high`] at "
        "the circuit, where c is the integer of `limits`, in the order of `orders`; as gamma grows it tends to 0.",
    ),
    "enclosure/second-loss": (
        "second-step",
        "For every gamma >= {least}, in all {instances} instances, L1b - gamma is in [`low`, `high`] at the "
        "circuit; as gamma grows it tends to -ln 3.",
    ),
    "enclosure/phase-one": (
        "phase-one",
        "On the gradient flow of Phase I from 0, with the end node at each of {m} context positions with equal "
        "probability and at no other, x = e^(w(1) - w_e) is in [`low`, `high`] at t = {t}.",
    ),
    "expectation/first-limit": (
        "constants",
        "The mean ({law}) of the limit of e^gamma (1 - f1(Z)[v]) at the circuit is exactly `value`.",
    ),
    "identity/end-token": (
        "slopes",
        "The probability ({law}) that token t is the end node is exactly `value_t`, t = 1..10.",
    ),
    "identity/target-token": (
        "slopes",
        "The probability ({law}) that token t is v is exactly `value_t`, t = 1..10.",
    ),
    "expectation/mean-slope": (
        "slopes",
        "At zero weights E dmu/dw({k}) ({law}) is exactly `value`, mu = f1(Z)[v].",
    ),
    "expectation/first-slope": (
        "slopes",
        "At zero weights E dL1a/dw({k}) ({law}) is exactly `value`.",
    ),
    "expectation/second-slope": (
        "slopes",
        "At zero weights E dL1b/dw({k}) ({law}) is exactly `value`.",
    ),
    "expectation/shallow-slope": (
        "slopes",
        "At zero weights E dL2/dw({k}) ({law}) is exactly `value`.",
    ),
    "identity/second-phase": (
        "phase-two",
        "With S1 = L and layer 2 zero, minus the mean gradient ({law}) of L1a with respect to W1 of layer 2 is "
        "exactly `value_j` in row T-1, j = 1..10, and 0 in every other row.",
    ),
    "counterexample/perfect": (
        "second-step",
        "At some gamma >= 0 head 1 of the circuit decodes the path (v, end) in one of the {instances} instances.",
    ),
    "counterexample/small-gradient": (
        "second-gradient",
        "In one of the {instances} instances there is a C such that at every gamma >= {least} the gradient of "
        "L1b with respect to W1 of layer 2 at the circuit has norm at most C e^-gamma.",
    ),
    "counterexample/uniform-end": (
        "slopes",
        "Token t is the end node with probability ({law}) 1/8 for each t = 1..8.",
    ),
    "counterexample/uniform-target": (
        "slopes",
        "Token t is v with probability ({law}) 1/8 for each t = 1..8.",
    ),
    "counterexample/mean-slope": (
        "slopes",
        "At zero weights E dmu/dw(1) = -137/162000 and E dmu/dw(k) = 131/324000 for k = 2..9 ({law}), mu = f1(Z)[v].",
    ),
    "counterexample/first-slope": (
        "slopes",
        "At zero weights ({law}) E dL1a/dw(1) > 0 and E dL1a/dw(k) < 0 for k = 2..9.",
    ),
    "counterexample/next-token-slope": (
        "slopes",
        "At zero weights ({law}) the mean gradient of (L1a + L1b)/2 is > 0 in w(1) and < 0 in w(k) for k = 2..9.",
    ),
    "counterexample/polynomial": (
        "audit",
        "(T - 1)^2 (T - 2) - T^2 = T^3 - 5 T^2 + 5 T + 2 at T = 10.",
    ),
    "counterexample/second-phase": (
        "phase-two",
        "On the gradient flow of the mean of L1a ({law}) from layer 2 zero, with S1 = L, all entries of W1 of "
        "layer 2 but (T-1, T-1) stay 0.",
    ),
    "counterexample/finite-rest": (
        "phase-two",
        "On a gradient flow of a mean of L1a from layer 2 zero, a diagonal entry of W0 of layer 2 can tend to "
        "infinity while the other entries of its row stay bounded.",
    ),
    "counterexample/second-phase-loss": (
        "phase-two",
        "With S1 = L and layer 2 zero, L1a = -log S2[T, t_end] in one of the {instances} instances.",
    ),
}

#: What the text says, in our words, and where.
PUBLISHED: dict[str, tuple[str, str]] = {
    "perfect": ("The circuit represents the task's solution perfectly.", "Section 5.2, after Corollary 1"),
    "small-gradient": ("At the circuit L1b has an exponentially small gradient.", "Section 5.2"),
    "uniform-end": ("The end node is at each context position with probability 1/8.", "Appendix D.2, Theorem 2"),
    "uniform-target": ("The target v is at each context position with probability 1/8.", "Appendix D.2, Theorem 3"),
    "mean-slope": (
        "At T = 10 the mean of dmu/dw(1) is -(1/100 - 1/648)/10 and that of dmu/dw(k) is "
        "(1/648 + 2/800)/10 for k >= 2.",
        "Appendix D.2, Theorem 3",
    ),
    "first-slope": ("At zero next-token prediction decreases w(1) and increases w(k), k >= 2.", "Theorem 3, loss L1"),
    "next-token-slope": (
        "Pure next-token prediction decreases w(1) and increases w(k), k >= 2.",
        "Section 5.3, Theorem 3",
    ),
    "polynomial": ("(T - 1)^2 (T - 2) - T^2 = T^3 - 5 T^2 + 5 T + 2.", "Appendix D.2, Theorem 3"),
    "second-phase": ("In Phase II all entries of W1 of layer 2 but (T-1, T-1) remain 0.", "Section 5.3, Theorem 2"),
    "finite-rest": (
        "In Phase II W0 of layer 2 tends to gamma' I + B, gamma' to infinity, with B off-diagonal and finite.",
        "Section 5.3, Theorem 2",
    ),
    "second-phase-loss": ("In Phase II L1a = -log S2[T, t_end].", "Appendix D.2, Theorem 2"),
}


def require_words(
    claim: Claim,
    context: Any,
    own: dict[str, Any],
    bounds: list[str],
    verdict: str = "certified",
    name: str = "",
    semantics: str = "real",
    assumptions: Any = (),
) -> None:
    """The claim has exactly these parameters and bounds, and the words that follow from them; `name` ends its id."""
    kind, short = claim["id"].split("/")[:2]
    anchor, sentence = SENTENCES[f"{kind}/{short}"]
    if kind == "counterexample":
        text, where = PUBLISHED[short]
        own, verdict = own | {"published": text, "source": f"{PAPER}, {where}"}, "refuted"
    statement = sentence.format(**own)
    words: dict[str, Any] = {"statement": statement, "theorem": f"{README}#{anchor}", "semantics": semantics}
    words["assumptions"] = list(assumptions)
    agrees(claim, context, id=f"{kind}/{short}{name}", parameters=list(own), bounds=bounds, **words)
    for key, value in own.items():
        if claim["parameters"][key] != value or type(claim["parameters"][key]) is not type(value):
            raise Rejected(f"its parameter {key} is {shown(claim['parameters'][key])}, not {shown(value)}")
    if claim["verdict"] != verdict:
        raise Rejected(f"a claim of this kind and these numbers is {verdict}")


def exactly(claim: Claim, own: dict[str, Fraction]) -> Finding:
    """Every bound is the checker's own number."""
    for name, value in own.items():
        if number(claim["bounds"][name]) != value:
            raise Rejected(f"{name} is claimed to be {shown(claim['bounds'][name])}, but it is {shown(str(value))}")
    return proved(claim, **own)


def numbered(values: list[Fraction]) -> dict[str, Fraction]:
    """value_1, value_2, ..."""
    return {f"value_{k}": x for k, x in enumerate(values, 1)}
