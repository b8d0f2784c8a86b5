"""Changes of witnesses, between claims, and of what is around the claims, and whether each does harm."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from certify.cases.polyprox import State, states_from, update_exact
from tampered_families import Family, rests_on, settled
from tampering import HUGE, NO_NUMBERS, TINY, Claim, Mutation, changed, drop, false, put, ulp, variants

from certify.certificate import parse
from certify.states.files import load_stream


def _state(family: Family, claim: Claim) -> State:
    """The state of a stage claim, as the producer reads it, with the claim's step size."""
    state = states_from(load_stream(io.BytesIO(family.state), "state"))[claim["parameters"]["state"]]
    return replace(state, gamma=float.fromhex(claim["parameters"]["gamma"]), b=0)


def displacement(family: Family, claim: Claim) -> Fraction:
    """The square of ||P(U) - U||, in rational arithmetic, by the producer's exact update."""
    state = _state(family, claim)
    U = [Fraction(float.fromhex(x)) for x in claim["witness"]["center"]]
    moved = update_exact(state, W=np.array(U, dtype=object).reshape(state.W.shape)).W
    new = [x for row in moved for x in row]
    return sum(((x - y) ** 2 for x, y in zip(new, U, strict=True)), Fraction(0))


def quotient(family: Family, claim: Claim, vector: list[float]) -> float:
    """v K v / v v at the centre, from exact updates a little to either side: K = (I - DP) / gamma."""
    state, step = _state(family, claim), Fraction(1, 1 << 40)
    U = [Fraction(float.fromhex(x)) for x in claim["witness"]["center"]]
    active = [k for k, u in enumerate(U) if u]
    v = [Fraction(0)] * len(U)
    for k, x in zip(active, vector, strict=True):
        v[k] = Fraction(x)
    ends = []
    for sign in (1, -1):
        W = np.array([u + sign * step * x for u, x in zip(U, v, strict=True)], dtype=object)
        ends.append([x for row in update_exact(state, W=W.reshape(state.W.shape)).W for x in row])
    slope = sum((x * (a - b) for x, a, b in zip(v, *ends, strict=True)), Fraction(0)) / (2 * step)
    square = sum((x * x for x in v), Fraction(0))
    return float((square - slope) / (square * Fraction(state.gamma)))


def witnesses(family: Family, name: str) -> Iterator[Mutation]:
    """Each entry of each witness: another centre is less fixed, another vector shows less, other inputs are elsewhere."""
    claim = family.claim(name)
    if claim["witness"] is None:
        return
    yield changed(family, name, "no witness", put("witness", to=None), True)
    yield changed(family, name, "an empty witness", put("witness", to={}), True)
    yield changed(family, name, "a file", put("witness", to={"file": "x", "sha256": "0" * 64}), True)
    yield from (_stage if claim["kind"] == "contraction" else _range)(family, name, claim)


def _lists(family: Family, name: str, *path: Any) -> Iterator[Mutation]:
    """A list of numbers with another length, or with something that is no number."""
    values: Any = family.claim(name)
    for step in path:
        values = values[step]
    for bad in (values[:-1], [*values, "0x0p+0"], [], None, "0x0p+0", [values], dict.fromkeys(values)):
        yield changed(family, name, f"{path} = {bad!r}", put(*path, to=bad), True)
    for k in range(len(values)):
        for bad in (*NO_NUMBERS, "1/3", "0x1p+1024"):
            yield changed(family, name, f"{path}[{k}] = {bad!r}", put(*path, k, to=bad), True)


def _stage(family: Family, name: str, claim: Claim) -> Iterator[Mutation]:
    yield changed(family, name, "without centre", drop("witness", "center"), True)
    yield from _lists(family, name, "witness", "center")
    at, refuted = ("witness", "center"), claim["verdict"] == "refuted"
    for k, text in enumerate(claim["witness"]["center"]):
        x = float.fromhex(text)
        if x == 0:  # the diagonal, or an inactive entry; -0 is the same number
            yield changed(family, name, f"centre[{k}] = -0", put(*at, k, to="-0x0p+0"), False)
            yield changed(family, name, f"centre[{k}] = 2**1000", put(*at, k, to=HUGE), True)
            if not _state(family, claim).M.ravel()[k]:
                yield changed(family, name, f"centre[{k}] = 2**-1074", put(*at, k, to=TINY), True)
            continue
        others = [ulp(text, up=True), ulp(text, up=False), (x * (1 + 2.0**-30)).hex(), (-x).hex(), "0x0p+0", HUGE]
        for place, other in enumerate(others):
            edit = put(*at, k, to=other)
            if refuted:  # within the cube, or beyond twice its size, where no centre of that cube can be
                harmful = place > 1
            else:
                spoiled = {**claim, "witness": {"center": [*claim["witness"]["center"]]}}
                spoiled["witness"]["center"][k] = other
                harmful = place == 5 or displacement(family, spoiled) > parse(claim["bounds"]["d"]) ** 2
            yield changed(family, name, f"centre[{k}] = {other}", edit, harmful)
    if not refuted:
        return
    yield from _lists(family, name, "witness", "vector")
    v = [float.fromhex(x) for x in claim["witness"]["vector"]]
    n, kappa = len(v), float.fromhex(claim["bounds"]["kappa"])
    others = [[2 * x for x in v], [-x for x in v], v[::-1], [0.0] * n, [1.0] * n]
    others += [[float(i == k) for i in range(n)] for k in range(n)]
    others += [
        [x * (1 - factor * (i == k)) for i, x in enumerate(v)] for k in range(n) for factor in (2, 1, 1e-3, 2**-52)
    ]
    for other in others:
        shown = quotient(family, claim, other) if any(other) else 0.0
        if abs(shown / kappa - 1) > 1e-8:
            edit = put("witness", "vector", to=[x.hex() for x in other])
            yield changed(family, name, f"vector {other}", edit, shown < kappa)


def _range(family: Family, name: str, claim: Claim) -> Iterator[Mutation]:
    witness, region = claim["witness"], claim["parameters"]["region"]
    for key in witness:
        yield changed(family, name, f"without {key}", drop("witness", key), True)
    yield changed(family, name, "more", put("witness", "more", to=1), True)
    for key in ("layer", "register"):
        for other in (witness[key] + "x", "2.1", "W", None, 1, ["a"]):
            yield changed(family, name, f"{key} = {other!r}", put("witness", key, to=other), True)
    center = region.get("center", "W")
    path = ("witness", "inputs", center) if "inputs" in witness else ("witness", "W")
    if "inputs" in witness:
        yield changed(family, name, "no inputs", put("witness", "inputs", to=None), True)
        yield changed(family, name, "another input", put("witness", "inputs", "A", to=["0x0p+0"] * 6), True)
        if region["kind"] == "point":
            return
    yield from _lists(family, name, *path)
    at = load_stream(io.BytesIO(family.state), "state").tensors[center]
    held = (at[claim["parameters"]["state"]] if at.ndim == 3 else at).ravel().tolist()
    values = witness[center] if center == "W" else witness["inputs"][center]
    for k, text in enumerate(values):
        inside = center != "W" or held[k] != 0
        for up in (True, False):
            # an ulp: still in the ball, and the same number in float16; outside the mask no number but 0 is
            fine = inside and region["kind"] == "ball"
            yield changed(family, name, f"{center}[{k}], an ulp", put(*path, k, to=ulp(text, up=up)), not fine)
        far = held[k] + 1.5 * float.fromhex(region.get("radius", "0x1p+0"))
        for other in (far.hex(), HUGE):
            yield changed(family, name, f"{center}[{k}] = {other}", put(*path, k, to=other), True)


def swaps(family: Family, name: str) -> Iterator[Mutation]:
    """Between this claim and each later one: ids, words, parameters, bounds, witnesses."""
    later = family.chosen[family.chosen.index(name) + 1 :]
    for other in later:
        a, b = family.claim(name), family.claim(other)
        for keys in (("id",), ("id", "kind"), ("parameters",), ("statement",), ("bounds", "display"), ("witness",)):
            if all(a[key] == b[key] for key in keys):
                continue
            swapped = [x | {key: y[key] for key in keys} for x, y in ((a, b), (b, a))]
            if keys[0] == "bounds":
                harm = [_other_bounds(family, x, y) for x, y in zip(swapped, (a, b), strict=True)]
            elif keys[0] == "witness":
                harm = [_other_witness(family, x, y) for x, y in zip(swapped, (a, b), strict=True)]
            else:
                harm = [True]
            if True not in harm and None in harm:
                continue
            base = family.sub(name, other)
            place = {name: swapped[0], other: swapped[1]}
            claims = [place.get(c["id"], c) for c in base["claims"]]
            yield Mutation(f"{name}: {keys} swapped with {other}", base | {"claims": claims}, True in harm)


def _other_bounds(family: Family, claim: Claim, was: Claim) -> bool | None:
    if set(claim["bounds"]) ^ set(was["bounds"]):
        return None if set(claim["bounds"]) ^ set(was["bounds"]) <= {"smallest_radius", "norm_count"} else True
    if any(claim["bounds"].get(key) != was["bounds"].get(key) for key in ("radius", "smallest_radius", "cube")):
        return None
    return false(claim, family.own[claim["id"]], was["bounds"])


def _other_witness(family: Family, claim: Claim, was: Claim) -> bool | None:
    if claim["kind"] != "contraction" or was["witness"] is None:
        return None if was["witness"] is None else True
    if claim["witness"] is None or "center" not in claim["witness"] or claim["verdict"] == "refuted":
        return True
    if len(claim["witness"]["center"]) != len(was["witness"]["center"]):
        return True
    return displacement(family, claim) > parse(claim["bounds"]["d"]) ** 2


def surroundings(family: Family) -> Iterator[Mutation]:
    """The report around the claims: its required claims, verdict, producer; claims that are twice or not there."""
    report = family.report
    for claim in report["claims"]:
        yield Mutation(f"{claim['id']} twice", report | {"claims": [*report["claims"], claim]}, True)
        missed = any(claim["id"] in rests_on(c) for c in report["claims"] if c["verdict"] != "undecided")
        # what no claim rests on may be missing; of the coarser formats then others may be left, or none
        if missed or claim["kind"] not in ("rounding", "range"):
            yield Mutation(f"{claim['id']} away", _without(report, claim), missed)
    ids = [c["id"] for c in report["claims"]]
    required = report.get("required", ids)
    for bad in ([], None, "all", [*required, required[0]], [*required, "none"], [1], {"a": 1}, [*required, None]):
        yield Mutation(f"required = {bad!r}", report | {"required": bad}, True)
    for name in ids:
        new = [x for x in required if x != name] if name in required else [*required, name]
        if new:
            yield Mutation(f"required: {name}", settled(report | {"required": new}), False)
            other = settled(report | {"required": new})["verdict"] != report["verdict"]
            yield Mutation(f"required: {name}, no more", report | {"required": new}, other)
    for verdict in {"certified", "refuted", "undecided", "true", "", None} - {report["verdict"]}:
        yield Mutation(f"verdict = {verdict!r}", report | {"verdict": verdict}, True)
    for key in set(report) - {"required"}:
        yield Mutation(f"without {key}", {k: v for k, v in report.items() if k != key}, True)
    yield Mutation("more", report | {"more": 1}, True)
    for schema in ("certify-report/2", "", None, 1):
        yield Mutation(f"schema = {schema!r}", report | {"schema": schema}, True)
    for key, value in (("name", "x"), ("version", "99"), ("arithmetic", {})):
        yield Mutation(f"producer {key}", report | {"producer": report["producer"] | {key: value}}, False)
    yield Mutation("producer", report | {"producer": report["producer"] | {"name": ""}}, True)
    yield from _subject(report, report["subject"], ())


def _without(report: Any, claim: Claim) -> Any:
    required = {"required": [x for x in report["required"] if x != claim["id"]]} if "required" in report else {}
    return settled(report | required | {"claims": [c for c in report["claims"] if c is not claim]})


def _subject(report: Any, place: Any, path: tuple[str, ...]) -> Iterator[Mutation]:
    """Sizes, digests, controls and names are those of the files; the name of a user's kernel is free."""

    def rebuilt(value: Any, path: tuple[str, ...], new: Any) -> Any:
        return value | {path[0]: rebuilt(value[path[0]], path[1:], new)} if path else new

    for key, value in place.items():
        less = {k: v for k, v in place.items() if k != key}
        at = "/".join((*path, key))
        yield Mutation(f"subject without {at}", report | {"subject": rebuilt(report["subject"], path, less)}, True)
        if isinstance(value, dict):
            yield from _subject(report, value, (*path, key))
        for other in variants(value):
            if key == "case" and isinstance(other, str):
                continue  # an unknown case: nothing is rejected, nothing passes, exit code 1
            subject = rebuilt(report["subject"], (*path, key), other)
            harmful = key != "kernel" or not isinstance(other, str)
            yield Mutation(f"subject {at} = {other!r}", report | {"subject": subject}, harmful)


OF_CLAIMS = (witnesses, swaps)
