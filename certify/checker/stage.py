"""Fixed stages: contraction on a ball, refutation at a fixed point, the precision that is enough.

**Theorem.** If P is q-Lipschitz, q < 1, on a ball of radius r around U in a face {W_Z = 0} that P and its program map into,
d >= ||P(U) - U||, the program is within eps of P there, and d + eps <= (1 - q) r, then iterates from the ball stay in it, P has
one fixed point W_* there, ||W_* - U|| <= d / (1 - q), and in the end rounding keeps them within eps / (1 - q) of it. If
mu <= K_FF <= L on the ball then q = max(|1 - gamma mu|, |1 - gamma L|). Proof: docs/theory/contraction.md#fixed-stage.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import arb, arb_mat, ctx

from certify.checker import document
from certify.checker.curvature import BITS, Centre, Entries, each, exact
from certify.checker.document import Beyond, Claim, Finding, Rejected, agrees, binary64, number, proved, shown
from certify.checker.formats import format_named, order_named

DOC = "docs/theory/contraction.md"


class Ball:
    """A ball around a centre, in a format, by the checker's own numbers; `face` are the entries not proved to become 0."""

    def __init__(self, centre: Centre, context: Any, format: str, order: str, radius: float) -> None:
        self.centre, self.radius, self.r, self.gamma = centre, radius, Fraction(radius), Fraction(centre.state.gamma)
        wide = order_named(order).accumulator
        if wide and not wide.holds(format_named(format)):
            raise Beyond(f"{wide.name} does not hold every number of {format}")
        bounds = context.running(centre.state, format, radius, order=order)
        zeros = (x == (0, 0, 0) for x in zip(bounds.low, bounds.high, bounds.error, strict=True))
        inactive = {-1} | {k for k, zero in enumerate(zeros) if zero}
        ids = dict(zip(centre.square, bounds.program.outputs["W"], strict=True))
        self.face: Entries = tuple(e for e in centre.allowed if centre.U[e] != 0 or ids[e] not in inactive)
        self.eps: Fraction = bounds.eps("W")
        self.d = centre.d

    def curvature(self, method: str = "face") -> tuple[Fraction, Fraction]:
        """mu, L with mu <= K(W) <= L on the ball, on the face or all allowed entries; of no entries, all numbers are."""
        entries = self.face if method == "face" else self.centre.allowed
        if not entries:
            return (Fraction(1 / self.centre.state.gamma),) * 2
        low, high = self.centre.curvature(entries, self.radius)
        if method != "face":
            if method == "interval":
                lower, higher = self.centre.by_rows(entries, self.radius)
            else:
                lower, higher = self.centre.by_constants(entries, self.radius, method == "global")
            low, high = low.max(lower.lower()), high.min(higher.upper())
        return exact(low), exact(high)

    def lipschitz(self, mu: Fraction, L: Fraction) -> Fraction:
        """Of W -> W - gamma grad J(W)."""
        return max(abs(1 - self.gamma * mu), abs(1 - self.gamma * L))

    @cached_property
    def q(self) -> Fraction:
        """The Lipschitz constant on the face, if with it the ball is contracted into itself."""
        q = self.lipschitz(*self.curvature())
        if not (q < 1 and self.d + self.eps <= (1 - q) * self.r):
            raise Rejected(f"the ball of radius {self.radius!r} is not proved to be contracted into itself")
        return q

    @property
    def floor(self) -> Fraction:
        """eps / (1 - q)."""
        return self.eps / (1 - self.q)

    @property
    def drift(self) -> Fraction:
        """d / (1 - q)."""
        return self.d / (1 - self.q)

    def entry_radius(self, room: Fraction) -> Fraction:
        """From so near, off the face, an update leads onto it: ||I - gamma K|| ||W - U|| <= room = r - d - eps."""
        if self.face == self.centre.allowed:
            return self.r
        return max(room, Fraction(0)) / (1 + self.gamma * exact(self.centre.reach(self.radius).upper()))


def centre_of(claim: Claim, context: Any) -> Centre:
    """The fixed stage of a contraction claim, with its step size, around the centre of its witness."""
    given, state = claim["parameters"], context.state(claim["parameters"].get("state"))
    step, gamma = given.get("step"), binary64(given.get("gamma"))
    if step not in ("recorded", "new") or gamma <= 0 or (step == "recorded" and gamma != state.gamma):
        raise Rejected(f"its step {shown(step)} is not recorded, of size {state.gamma!r}, or new with a positive size")
    U = document.matrix(context.witness(claim).get("center"), state.p, "the centre")
    key = ("stage", given["state"], gamma, tuple(map(tuple, U)))
    centre: Centre = context.cached(key, lambda: Centre(replace(state, W=U, gamma=gamma, b=0)))
    if any(centre.U[e] != 0 for e in set(centre.square) - set(centre.allowed)):
        raise Rejected("the centre is not 0 on an entry that the mask forbids")
    return centre


def stage_of(claim: Claim, context: Any) -> Centre:
    """The stage that a claim refers to, its own step and state, after checking the claim that has the centre."""
    given = claim["parameters"]
    stage = context.proved(given.get("stage"))
    same = all(repr(stage["parameters"].get(k)) == repr(given.get(k)) for k in ("state", "step", "gamma"))
    if stage["kind"] != "contraction" or stage["parameters"]["method"] != "face" or not same:
        raise Rejected(f"its stage {shown(given.get('stage'))} is not the face claim of its state and step")
    return centre_of(stage, context)


def semantics_of(order: Any) -> str:
    """Of one program, or of every one."""
    return "any-order" if order_named(order).kind == "any-order" else "program"


def check_contraction(claim: Claim, context: Any) -> Finding:
    """A contraction claim: certified by any method, as one proof serves them all, or refuted on the face."""
    given, refuted, method = claim["parameters"], claim["verdict"] == "refuted", claim["parameters"].get("method")
    known = ("face",) if refuted else ("global", "local", "interval", "face")
    if method not in known or given.get("format") != "float64":
        raise Rejected(f"there is no method {shown(method)} with this verdict, or it is not about float64")
    with ctx.workprec(BITS):
        centre, face = centre_of(claim, context), method == "face"
        ball = f"On the ball of Frobenius radius r around the centre U near {context.where(given['state'])}, with the"
        update = f"{given['step']} step size, the fixed-stage update is q-Lipschitz with q < 1{' on its face' * face}"
        stays = "it and its float64 program stay in the ball, and it has exactly one fixed point there."
        words: dict[str, Any] = {
            "statement": f"{ball} {update}, {stays}",
            "theorem": f"{DOC}#{'refutation' if refuted else method}",
        }
        names = ["q", "mu", "L_J", "d", "radius", "eps_W", "floor"] + ["entry_radius"] * face
        words |= {"assumptions": ["IEEE arithmetic as in the rounding claims of float64"]}
        words |= {"semantics": semantics_of(given.get("order"))}
        agrees(
            claim, context, id=f"contraction/{method}",
            parameters=("state", "method", "step", "gamma", "format", "order", "tol"), **words,
            bounds=["kappa", "cube"] if refuted else names, optional=["smallest_radius"] * (face and not refuted),
        )  # fmt: skip
        tol = Fraction(binary64(given["tol"]))
        return _refuted(claim, centre, context) if refuted else _certified(claim, centre, context, tol)


def _certified(claim: Claim, centre: Centre, context: Any, tol: Fraction) -> Finding:
    """mu, L_J, d and eps_W are not better than the checker's own; the other numbers follow from those claimed."""
    bounds, method = claim["bounds"], claim["parameters"]["method"]
    mu, L, q, d, eps = (number(bounds[name]) for name in ("mu", "L_J", "q", "d", "eps_W"))
    order = claim["parameters"]["order"]
    ball = Ball(centre, context, "float64", order, binary64(bounds["radius"]))
    own = dict(zip(("mu", "L_J"), ball.curvature(method), strict=True))
    own |= {"d": ball.d, "eps_W": ball.eps, "q": ball.lipschitz(mu, L)}
    if not (0 <= q < 1 and d + eps <= (1 - q) * ball.r):
        raise Rejected("its numbers do not satisfy q < 1 and d + eps <= (1 - q) r")
    own |= {"floor": eps / (1 - q)}
    if method == "face":
        own["entry_radius"] = ball.entry_radius(ball.r - d - eps)
    for name, value in own.items():
        require = document.require_lower if name in ("mu", "entry_radius") else document.require_upper
        require(claim, name, value)
    smallest = bounds.get("smallest_radius")
    if smallest is not None and not Ball(centre, context, "float64", order, binary64(smallest)).floor < tol:
        raise Rejected("the smallest ball does not reach the tolerance")
    return proved(claim, **own)


def _refuted(claim: Claim, centre: Centre, context: Any) -> Finding:
    """P contracts no neighbourhood of a fixed point W_* where its derivative, I - gamma K_FF, has an eigenvalue beyond 1.

    It is in the cube |W_F - U_F| <= r, as x -> x - C G(x), G = grad J_F + lam sign(U_F), maps that into its inside.
    """
    r, kappa = binary64(claim["bounds"]["cube"]), number(claim["bounds"]["kappa"])
    active: Entries = tuple(e for e in centre.allowed if centre.U[e] != 0)
    texts, n = context.witness(claim).get("vector"), len(active)
    if not (r > 0 and active and isinstance(texts, list) and len(texts) == n):
        raise Rejected("its cube or vector does not fit the active entries of the centre")
    box = centre.box(active, r)
    C = box.K.mid().inv(nonstop=True).mid()
    G = arb_mat([[box.gradient[e] * centre.signs[e] + centre.lam] for e in active])
    slopes = each(abs, arb_mat(n, n, 1) - C * box.K) + each(abs, C) * box.V
    moves = (each(abs, C * G) + slopes * arb_mat(n, 1, [r] * n)).entries()
    still = set(centre.allowed) - set(active)
    v = arb_mat([[arb(binary64(text)) * centre.signs[e]] for text, e in zip(texts, active, strict=True)])
    square, middle, moved = ((x.transpose() * A * x)[0, 0] for A, x in ((1, v), (box.K, v), (box.V, each(abs, v))))
    for holds, otherwise in (
        (all(x < r for x in moves), "no fixed point is proved in the cube"),
        (all(abs(centre.U[e]) > r for e in active), "an active entry may vanish in the cube"),
        (all(abs(box.gradient[e]) + box.spread[e] < centre.lam for e in still), "an inactive entry may become active"),
        (square > 0, "its vector is 0"),
        (kappa < 0 or Fraction(centre.state.gamma) * kappa > 2, "kappa is neither negative nor above 2 / gamma"),
    ):
        if not holds:
            raise Rejected(otherwise)
    low, high = exact(((middle - moved) / square).lower()), exact(((middle + moved) / square).upper())
    own, require = (high, document.require_upper) if kappa < 0 else (low, document.require_lower)
    require(claim, "kappa", own)
    return proved(claim, kappa=own, cube=Fraction(r))


def check_precision(claim: Claim, context: Any) -> Finding:
    """The coarsest format that is proved to be enough for a tolerance."""
    given, centre, order = claim["parameters"], stage_of(claim, context), claim["parameters"].get("order")
    tol, radius = binary64(given.get("tol")), binary64(given.get("radius"))
    format, formats = given.get("format"), given.get("formats")
    known = isinstance(formats, list) and all(isinstance(f, str) for f in formats) and format in formats
    if claim["verdict"] != "certified" or not known:
        raise Rejected("its verdict or its list of formats is not one that it can have")
    stage = f"the fixed stage of {context.where(given['state'])}, with the {given['step']} step size"
    certified = f"is certified on a ball to come within {tol!r} of its fixed point and stay there"
    last = f"of {', '.join(formats)}, no coarser format is proved to be."
    words = {"statement": f"{format} is enough: in it {stage}, {certified}; {last}", "theorem": f"{DOC}#precision"}
    keys = ("state", "tol", "format", "formats", "order", "step", "gamma", "stage", "radius")
    agrees(claim, context, id=f"precision/{tol!r}", parameters=keys, semantics=semantics_of(order), **words)
    if sorted(set(formats), key=lambda f: (format_named(f).precision, f)) != formats:
        raise Rejected("its formats are not listed from coarse to fine")
    for other in (c for c in context.claims.values() if c["kind"] == "updates" and c["verdict"] == "certified"):
        same = all(other["parameters"].get(k) == given[k] for k in ("state", "tol"))
        if same and other["parameters"].get("format") in formats[: formats.index(format)]:
            raise Rejected(f"claim {other['id']} shows that a coarser format is enough")
    with ctx.workprec(BITS):
        floor = Ball(centre, context, format, order, radius).floor
    if not floor < Fraction(tol):
        raise Rejected(f"rounding in {format} is not proved to stay within the tolerance")
    return proved(claim, floor=floor)
