"""Fixed stages: contraction on a ball, refutation at a fixed point, the precision that is enough. Spec section 5.

**Fixed-stage theorem** (Banach). If P is q-Lipschitz, q < 1, on a ball of radius r around U in a face {W_Z = 0} that P and its
program map into, d >= ||P(U) - U||, the program is within eps of P on the ball, and d + eps <= (1 - q) r, then iterates that
start in the ball stay in it, P has one fixed point there, and rounding keeps them within eps / (1 - q) of it in the limit.
If mu <= K_FF(W) <= L on the ball then q = max(|1 - gamma mu|, |1 - gamma L|), as the soft threshold is 1-Lipschitz.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

from flint import arb, arb_mat, ctx

from certify.checker.curvature import BITS, Centre, Entries, absolute, exact, identity
from certify.checker.document import (
    Claim,
    Finding,
    Rejected,
    agrees,
    binary64,
    integer,
    matrix,
    number,
    proved,
    require_lower,
    require_upper,
    shown,
)
from certify.checker.rounding import FORMATS

DOC = "docs/theory/contraction.md"


class Ball:
    """A ball around a centre, in a format, by the checker's own numbers: face, eps, d, and q, floor where they are finite."""

    def __init__(self, centre: Centre, context: Any, format: str, radius: float) -> None:
        self.centre, self.radius = centre, radius
        analysis = context.running(centre.state, format, radius)
        self.eps: Fraction = analysis.eps("W")
        p, W, ids = centre.state.p, centre.state.W, analysis.program.outputs["W"]

        def inactive(i: int, j: int) -> bool:
            k = ids[i * p + j]  # negative: exactly 0
            return W[i][j] == 0 and (k < 0 or analysis.low[k] == analysis.high[k] == analysis.error[k] == 0)

        self.face: Entries = tuple(e for e in centre.allowed if not inactive(*e))
        self.d: Fraction = centre.kept("d", centre.displacement)

    def curvature(self, method: str) -> tuple[Fraction, Fraction] | None:
        """mu, L by a method; None if it is about no entry."""
        entries = self.face if method == "face" else self.centre.allowed
        if not entries:
            return None
        ends = self.centre.global_curvature if method == "global" else lambda r: self.centre.curvature(entries, r)
        low, high = self.centre.kept((method == "global", entries, self.radius), lambda: ends(self.radius))
        return exact(low.lower()), exact(high.upper())

    @property
    def q(self) -> Fraction:
        """The Lipschitz constant on the face, below 1; Rejected if that is not proved."""
        q = lipschitz(Fraction(self.centre.state.gamma), *(self.curvature("face") or (None, None)))
        if not (q < 1 and self.d + self.eps <= (1 - q) * Fraction(self.radius)):
            raise Rejected(f"the ball of radius {self.radius!r} is not proved to be contracted into itself")
        return q

    @property
    def floor(self) -> Fraction:
        """eps / (1 - q)."""
        return self.eps / (1 - self.q)

    def entry_radius(self, room: Fraction) -> Fraction:
        """Starts off the face are in the ball, on its face, after an update, up to this distance; room is r - d - eps.

        ||P_F(W) - P_F(U)|| <= ||I - gamma K|| ||W - U|| over all allowed entries.
        """
        if self.face == self.centre.allowed:
            return Fraction(self.radius)
        reach = exact(self.centre.kept(("reach", self.radius), lambda: self.centre.reach(self.radius)).upper())
        return max(room, Fraction(0)) / (1 + Fraction(self.centre.state.gamma) * reach)


def lipschitz(gamma: Fraction, mu: Fraction | None, L: Fraction | None) -> Fraction:
    """max(|1 - gamma mu|, |1 - gamma L|); 0 for a map without entries."""
    return Fraction(0) if mu is None or L is None else max(abs(1 - gamma * mu), abs(1 - gamma * L))


def centre_of(claim: Claim, context: Any) -> Centre:
    """The fixed stage of a contraction claim around the centre of its witness, with its step size."""
    given = claim["parameters"]
    state = context.state(given.get("state"))
    gamma = binary64(given.get("gamma"))
    if given.get("step") not in ("recorded", "new") or not gamma > 0:
        raise Rejected("its step is not recorded or new with a positive size")
    if given["step"] == "recorded" and gamma != state.gamma:
        raise Rejected(f"its step size {gamma!r} is not the recorded one, {state.gamma!r}")
    U = matrix((claim["witness"] or {}).get("center"), state.p, "the centre")
    if any(U[i][j] and not state.M[i][j] for i in range(state.p) for j in range(state.p)):
        raise Rejected("the centre is not 0 on an entry that the mask forbids")
    key = ("stage", given["state"], gamma, tuple(map(tuple, U)))
    if key not in context.cache:
        context.cache[key] = Centre(replace(state, W=U, gamma=gamma, b=0))
    return context.cache[key]  # type: ignore[no-any-return]


def check_contraction(claim: Claim, context: Any) -> Finding:
    """A contraction claim, certified by any method or refuted on the face."""
    given, refuted = claim["parameters"], claim["verdict"] == "refuted"
    method = given.get("method")
    if method not in ("global", "local", "interval", "face") or (refuted and method != "face"):
        raise Rejected(f"there is no method {shown(method)} with this verdict")
    if given.get("format") != "float64" or given.get("order") != "serial":
        raise Rejected("it is not about float64 and serial sums")
    with ctx.workprec(BITS):
        centre = centre_of(claim, context)
        names = ("q", "mu", "L_J", "d", "radius", "eps_W", "floor") + ("entry_radius",) * (method == "face")
        agrees(
            claim,
            context,
            id=f"contraction/{method}",
            bounds=("kappa", "cube") if refuted else names,
            optional=("smallest_radius",) if method == "face" and not refuted else (),
            statement=f"On the ball of Frobenius radius r around the centre U near {context.where(given['state'])}, with "
            f"the {given['step']} step size, the fixed-stage update is q-Lipschitz with q < 1"
            f"{' on its face' * (method == 'face')}, it and its float64 program stay in the ball, and it has exactly one "
            "fixed point there.",
            theorem=f"{DOC}#{'refutation' if refuted else method}",
            assumptions=["IEEE arithmetic as in the rounding claims of float64"],
            parameters=("state", "method", "step", "gamma", "format", "order", "tol"),
        )
        tol = binary64(given["tol"])
        return _refuted(claim, centre) if refuted else _certified(claim, centre, context, method, tol)


def _certified(claim: Claim, centre: Centre, context: Any, method: str, tol: float) -> Finding:
    face = method == "face"
    bounds = claim["bounds"]
    radius = binary64(bounds["radius"])
    mu, L, q, d, eps = (number(bounds[name]) for name in ("mu", "L_J", "q", "d", "eps_W"))
    ball = Ball(centre, context, "float64", radius)
    own = ball.curvature(method)
    numbers = {"d": ball.d, "eps_W": ball.eps}
    if d < ball.d:  # 0, perhaps: there are no roundings in so many bits
        with ctx.workprec(1 << 15):
            numbers["d"] = Centre(centre.state).displacement()
    if own is not None:
        require_lower(claim, "mu", own[0])
        numbers["L_J"] = own[1]
    numbers["q"] = lipschitz(Fraction(centre.state.gamma), mu, L)
    if not (0 <= q < 1 and d + eps <= (1 - q) * Fraction(radius)):
        raise Rejected("its numbers do not satisfy q < 1 and d + eps <= (1 - q) r")
    numbers["floor"] = eps / (1 - q)
    for name, value in numbers.items():
        require_upper(claim, name, value)
    if face:
        numbers["entry_radius"] = ball.entry_radius(Fraction(radius) - d - eps)
        require_lower(claim, "entry_radius", numbers["entry_radius"])
    if "smallest_radius" in bounds:
        smallest = Ball(centre, context, "float64", binary64(bounds["smallest_radius"]))
        if not smallest.floor < Fraction(tol):
            raise Rejected("the smallest ball does not reach the tolerance")
    return proved(claim, **numbers, **({} if own is None else {"mu": own[0]}))


def _refuted(claim: Claim, centre: Centre) -> Finding:
    """P contracts no neighbourhood of a fixed point W_* where its derivative, I - gamma K_FF, has an eigenvalue beyond 1.

    W_* is the zero of G = grad J_F + lam sign(U_F) in the cube |W_F - U_F| <= r: x -> x - C G(x) contracts it, since
    Y + Z r <= r for Y >= |C G(U)|, Z >= ||I - C K_FF||, Z < 1, maximum norms (Newton, Kantorovich, Krawczyk). On the cube
    signs are those of U, and |grad J| < lam where U is 0: W_* is a fixed point of P, and P is differentiable there.
    Rayleigh quotients bound kappa for every Hessian of the cube.
    """
    r, kappa = binary64(claim["bounds"]["cube"]), number(claim["bounds"]["kappa"])
    W, sign = centre.state.W, centre.signs
    active: Entries = tuple(e for e in centre.allowed if W[e[0]][e[1]] != 0)
    texts = claim["witness"].get("vector")
    if not (r > 0 and active and isinstance(texts, list) and len(texts) == len(active)):
        raise Rejected("its cube or vector does not fit the active entries of the centre")
    at, n = centre.box(active, r), len(active)
    try:
        C = at.K.mid().inv().mid()
    except ZeroDivisionError:
        raise Rejected("the Hessian at its centre is singular") from None
    G = arb_mat([[at.gradient[e] * sign[e] + centre.lam] for e in active])
    spread = absolute(identity(n) - C * at.K) + absolute(C) * at.V
    Y = reduce(arb.max, absolute(C * G).entries())
    Z = reduce(arb.max, (spread * arb_mat(n, 1, [1] * n)).entries())
    if not (Z < 1 and Y + Z * r <= r):
        raise Rejected("no fixed point is proved in the cube")
    if not all(abs(W[i][j]) > r for i, j in active):
        raise Rejected("an active entry may vanish in the cube")
    if not all(abs(at.gradient[e]) + at.spread[e] < centre.lam for e in set(centre.allowed) - set(active)):
        raise Rejected("an inactive entry may become active in the cube")
    v = arb_mat([[arb(binary64(text)) * sign[e]] for text, e in zip(texts, active, strict=True)])
    square = (v.transpose() * v)[0, 0]
    middle, moved = ((x.transpose() * A * x)[0, 0] for x, A in ((v, at.K), (absolute(v), at.V)))
    if not square > 0:
        raise Rejected("its vector is 0")
    if Fraction(centre.state.gamma) * kappa > 2:
        own = exact(((middle - moved) / square).lower())
        require_lower(claim, "kappa", own)
    elif kappa < 0:
        own = exact(((middle + moved) / square).upper())
        require_upper(claim, "kappa", own)
    else:
        raise Rejected("kappa is neither negative nor above 2 / gamma")
    return proved(claim, kappa=own, cube=Fraction(r))


def check_precision(claim: Claim, context: Any) -> Finding:
    """The coarsest format that is proved to be enough for a tolerance."""
    given = claim["parameters"]
    format, formats, radius = given.get("format"), given.get("formats"), binary64(given.get("radius"))
    tol, centre = binary64(given.get("tol")), stage_of(claim, context)
    known = isinstance(formats, list) and all(isinstance(f, str) and f in FORMATS for f in formats)
    if claim["verdict"] != "certified" or not known or format not in formats:
        raise Rejected("its verdict or its list of formats is not one that it can have")
    if sorted(set(formats), key=lambda f: (FORMATS[f].precision, f)) != formats:
        raise Rejected("its formats are not listed from coarse to fine")
    agrees(
        claim,
        context,
        id=f"precision/{tol!r}",
        statement=f"{format} is enough: in it the fixed stage of {context.where(given['state'])}, with the "
        f"{given['step']} step size, is certified on a ball to come within {tol!r} of its fixed point and stay there; of "
        f"{', '.join(formats)}, no coarser format is proved to be.",
        theorem=f"{DOC}#precision",
        parameters=("state", "tol", "format", "formats", "step", "gamma", "stage", "radius"),
    )
    coarser = formats[: formats.index(format)]
    for other in context.claims.values():
        same = other["kind"] == "updates" and all(other["parameters"].get(k) == given[k] for k in ("state", "tol"))
        if same and other["verdict"] == "certified" and other["parameters"].get("format") in coarser:
            raise Rejected(f"claim {other['id']} shows that a coarser format is enough")
    with ctx.workprec(BITS):
        floor = Ball(centre, context, format, radius).floor
    if not floor < Fraction(tol):
        raise Rejected(f"rounding in {format} is not proved to stay within the tolerance")
    return proved(claim, floor=floor)


def stage_of(claim: Claim, context: Any) -> Centre:
    """The stage that a claim refers to, its own step and state, after checking the claim that has the centre."""
    given = claim["parameters"]
    stage = context.proved(given.get("stage"))
    same = all(stage["parameters"].get(k) == given.get(k) for k in ("state", "step", "gamma"))
    if stage["kind"] != "contraction" or stage["parameters"]["method"] != "face" or not same:
        raise Rejected(f"its stage {shown(given.get('stage'))} is not the face claim of its state and step")
    integer(given["state"], 0, 1 << 62, "the state")
    return centre_of(stage, context)
