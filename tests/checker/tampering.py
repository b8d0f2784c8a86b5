"""Changes of one claim, one at a time, and whether each does harm: decided without asking the checker about the change."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from checker_reports import Report
from tampered_families import Family, settled

from certify.certificate import decimal_up, parse, to_text

Claim = dict[str, Any]
LOWER = ("mu", "entry_radius")  # lower bounds; the others are upper bounds
GIVEN = ("radius", "smallest_radius", "cube")  # of the ball that a claim is about: no bounds of anything
NO_NUMBERS = ("nan", "inf", "1.5", "1e3", "", " 1", "0x1p9999999", "2/4", "٣", None, 1, [])
WRONG = ("other", "", None, 7, -1, True, False, [], {}, "0x1p+0", "1/3")
TINY, HUGE = "0x1p-1074", "0x1p+1000"


class Mutation(NamedTuple):
    """A changed report. `harmful`: a claim of it is false or ill-formed, so that the checker must reject it."""

    label: str
    report: Report
    harmful: bool


def changed(family: Family, name: str, label: str, edit: Any, harmful: bool, *, settle: bool = False) -> Mutation:
    """The claim, and those it rests on, after `edit` has changed the claim; `settle` changes the overall verdict, too."""
    base = family.sub(name)
    claim = copy.deepcopy(family.claim(name))
    edit(claim)
    report = base | {"claims": [claim if c["id"] == name else c for c in base["claims"]]}
    return Mutation(f"{name}: {label}", settled(report) if settle else report, harmful)


def put(*path: Any, to: Any) -> Any:
    """Replaces one value of a claim."""

    def edit(claim: Claim) -> None:
        place: Any = claim
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return edit


def drop(*path: Any) -> Any:
    """Leaves one key of a claim out."""

    def edit(claim: Claim) -> None:
        place: Any = claim
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return edit


def ulp(text: str, *, up: bool) -> str:
    """The next binary64 number."""
    return math.nextafter(float.fromhex(text), math.inf if up else -math.inf).hex()


def is_number(value: Any) -> bool:
    """Whether a parameter is a binary64 number as text."""
    return isinstance(value, str) and re.fullmatch(r"-?0x[0-9a-f.]+p[+-][0-9]+", value) is not None


def texts(family: Family, name: str) -> Iterator[Mutation]:
    """Words: each is a function of kind and parameters, so any change is ill-formed."""
    claim = family.claim(name)
    words = claim["statement"].split(" ")
    new: list[tuple[str, Any]] = [
        ("statement", " ".join(words[:k] + words[k + 1 :])) for k in range(len(words))
    ]  # one word less
    for k, word in enumerate(words):
        number = re.fullmatch(r"([0-9.e+-]+[0-9])([.,]?)", word)
        if number:  # one ulp away, or as another decimal
            value = float(number[1])
            for other in (math.nextafter(value, math.inf), math.nextafter(value, -math.inf), -value, 2 * value + 1):
                new.append(("statement", " ".join([*words[:k], repr(other) + number[2], *words[k + 1 :]])))
            new.append(("statement", " ".join([*words[:k], f"{value:.20e}" + number[2], *words[k + 1 :]])))
    new += [("statement", x) for x in (claim["statement"] + " ", claim["statement"].upper(), "True.", "", None)]
    new += [("semantics", x) for x in ("real", "program", "any-order", "", None) if x != claim["semantics"]]
    theorem, held = claim["theorem"], claim["assumptions"]
    anchors = ("running", "majorant", "range", "exactness", "face", "local", "refutation", "updates", "precision", "")
    new += [("theorem", re.sub("#.*", f"#{x}", theorem)) for x in anchors if not theorem.endswith(f"#{x}")]
    new += [("theorem", x) for x in (theorem.replace("docs/", "doc/"), theorem[:-1], theorem + "s", "", None)]
    new += [("assumptions", held[:k] + held[k + 1 :]) for k in range(len(held))]
    new += [("assumptions", [x.replace(" ", "  ", x is one) for x in held]) for one in held]
    new += [("assumptions", held[::-1])] * (len(held) > 1)
    new += [("assumptions", x) for x in ([*held, "exact arithmetic"], [*held, ""], None, [*held, 1])]
    new += [("id", x) for x in (name + "x", name + "/state=7", name.split("/")[0], name.upper(), name[:-1], "", None)]
    kinds = ("rounding", "range", "exactness", "contraction", "updates", "precision", "magic", "", None)
    new += [("kind", x) for x in kinds if x != claim["kind"]]
    for key, value in new:
        yield changed(family, name, f"{key} = {value!r}", put(key, to=value), True)
    for key in claim:
        yield changed(family, name, f"without {key}", drop(key), True)
    yield changed(family, name, "with a key more", put("more", to=1), True)


def harmless(family: Family, name: str) -> Iterator[Mutation]:
    """What is no part of a claim: measurements, reasons of what is certified, larger decimals; and what only looks so."""
    claim = family.claim(name)
    overflow = claim["kind"] == "range" and claim["verdict"] == "refuted"
    for key, value in (("observed", {}), ("observed", {"error_W": "0x1p-99", "x": [None]}), ("reason", "none")):
        yield changed(family, name, f"{key} = {value!r}", put(key, to=value), overflow and key == "reason")
    for value in reasons(claim["reason"]) if overflow else []:
        yield changed(family, name, f"reason = {value!r}", put("reason", to=value), True)
    for key in claim["observed"]:
        yield changed(family, name, f"without observed {key}", drop("observed", key), False)
    for key in claim["display"]:
        yield changed(family, name, f"without display of {key}", drop("display", key), False)
    if claim["witness"] is None:
        for idle in ({"x": 1}, {"center": ["0x0p+0"]}, {"layer": "", "register": "W", "W": []}):
            yield changed(family, name, f"the idle witness {idle}", put("witness", to=idle), True)
    else:
        yield changed(family, name, "more in its witness", put("witness", "x", to=1), True)
    if "attempts" in claim["observed"]:
        for value in ([], None, [{"radius": "nan"}]):
            yield changed(family, name, f"attempts = {value!r}", put("observed", "attempts", to=value), False)


def reasons(text: str) -> Iterator[str]:
    """Other sentences about an overflow: other places, numbers and operations, words more or less."""
    yield from (text + ".", text + " ", " " + text, text.upper(), "", text.replace(" overflows", " may overflow"))
    yield from (
        f"not true: {text}",
        f"{text}; all is well",
        text.replace(" overflows", ""),
        "another operation overflows",
    )
    words = text.split(" ")
    yield from (
        " ".join(words[:k] + words[k + 1 :]) for k in range(len(words)) if not re.search("[a-z]:[0-9]", words[k])
    )
    for found in re.finditer(r"[0-9]+(?=\]|,)|(?<=node )[0-9]+|(?<=register )\w|(?<=layer )\w|(?<=input )\w", text):
        yield f"{text[: found.start()]}{'Z' if found[0].isalpha() else int(found[0]) + 7}{text[found.end() :]}"


def verdicts(family: Family, name: str) -> Iterator[Mutation]:
    """Another verdict is false or ill-formed, but undecided with a reason, which claims nothing."""
    was = family.claim(name)["verdict"]
    for verdict in ("certified", "refuted", "undecided", "true", "", None, True):
        for reason in ("", "because"):
            if verdict == was:
                continue
            fine = verdict == "undecided" and bool(reason)
            both = lambda c, v=verdict, r=reason: c.update(verdict=v, reason=r)  # noqa: E731
            yield changed(family, name, f"{verdict!r} {reason!r}", both, not fine, settle=True)
            if fine:
                alone = changed(family, name, "undecided, and the report as it was", both, True)
                yield alone._replace(harmful=settled(alone.report) != alone.report)


def variants(value: Any) -> Iterator[Any]:
    """Values near and far that mean something else."""
    if is_number(value):
        yield from (ulp(value, up=True), ulp(value, up=False), (2 * float.fromhex(value) + 1).hex())
        yield from ["-" + value] * (float.fromhex(value) != 0)
        yield from (TINY, HUGE, *NO_NUMBERS)
    elif isinstance(value, list):
        yield from ([x for x in value if x != y] for y in value)
        yield from ([*value, value[0]], [*value, "float128"], [*value, None])
        yield from [value[::-1]] * (value != value[::-1])
    elif isinstance(value, str):
        yield from (value + " ", value.upper() + "x", value[:-1] if len(value) > 1 else "xy")
    elif isinstance(value, int):
        yield from (value + 1, value - 1, value + 2**40, str(value), bool(value), [value])
    yield from (x for x in WRONG if type(x) is not type(value) or x != value)


def free(claim: Claim) -> set[str]:
    """Parameters that no word of the claim depends on: other values may be as true."""
    found = {"contraction": {"tol"}, "updates": {"radius", "through"}, "precision": {"radius"}}.get(
        claim["kind"], set()
    )
    new_step = claim["kind"] == "contraction" and claim["parameters"]["step"] == "new"
    return found | ({"gamma"} if new_step else set())


def parameters(family: Family, name: str) -> Iterator[Mutation]:
    """Each parameter: words, id, state file or the stage stop fitting; free ones where it is plain that harm is done."""
    claim = family.claim(name)
    given = claim["parameters"]
    yield changed(family, name, "a parameter more", put("parameters", "more", to=1), True)
    for key, value in given.items():
        yield changed(family, name, f"without {key}", drop("parameters", key), True)
        if key in free(claim):
            values = [x for x in (*NO_NUMBERS, *WRONG) if x not in ("", "0x1p+0") or key not in ("tol", "through")]
            values = [x for x in values if not (key == "through" and x == "")]
            values += [] if key == "tol" else ["-0x1p+0", "0x0p+0", HUGE, TINY]
        else:
            values = list(variants(value))
        for other in values:
            yield changed(family, name, f"{key} = {other!r}", put("parameters", key, to=other), True)
        if isinstance(value, dict):
            yield changed(family, name, f"more in {key}", put("parameters", key, "more", to=1), True)
            for inner, old in value.items():
                yield changed(family, name, f"without {inner}", drop("parameters", key, inner), True)
                for other in variants(old):
                    label = f"{key}.{inner} = {other!r}"
                    yield changed(family, name, label, put("parameters", key, inner, to=other), True)
    if claim["kind"] == "contraction":
        tol = (2 * float.fromhex(given["tol"])).hex()
        yield changed(family, name, "a larger tolerance", put("parameters", "tol", to=tol), False)
        tiny = "smallest_radius" in claim["bounds"]
        yield changed(family, name, "a tiny tolerance", put("parameters", "tol", to=TINY), tiny)


def bounds(family: Family, name: str) -> Iterator[Mutation]:
    """Each bound: at the checker's own number and just beyond it, one ulp either way, and far away; and no numbers."""
    claim, own = family.claim(name), family.own[name]
    for key, text in claim["bounds"].items():
        for bad in NO_NUMBERS:
            yield changed(family, name, f"{key} = {bad!r}", put("bounds", key, to=bad), True)
        yield changed(family, name, f"without {key}", drop("bounds", key), key not in ("smallest_radius", "norm_count"))
        value = parse(text)
        if key in GIVEN:
            for bad in ("0x0p+0", "-" + text, TINY, HUGE, "1/3"):
                yield changed(family, name, f"{key} = {bad}", put("bounds", key, to=bad), True)
            continue
        for label, new in _near(value, own.get(key)):
            for shown in (False, True):
                edit = _bound(key, new, shown)
                spoiled = copy.deepcopy(claim)
                edit(spoiled)
                wrong = false(spoiled, own, claim["bounds"])
                if wrong is not None:
                    yield changed(family, name, f"{key} {label}{', shown' * shown}", edit, wrong)
    yield changed(family, name, "a bound more", put("bounds", "eps_X", to="0x1p+0"), True)
    for key in claim["bounds"]:
        text = claim["display"][key]
        if key not in LOWER and key not in GIVEN and not (key == "kappa" and parse(claim["bounds"][key]) > 0):
            if key == "L_J" and key not in own:
                continue
            small = decimal_up(parse(claim["bounds"][key]) / 2)
            for bad in (*({small} - {text}), "-1", "nan", "1,5", "", "0x1p+9", " 1", "1e99999", None, 1):
                yield changed(family, name, f"{key} shown as {bad!r}", put("display", key, to=bad), True)
            yield changed(family, name, f"{key} shown larger", put("display", key, to="9e+99"), False)


def _near(value: Fraction, own: Fraction | None) -> Iterator[tuple[str, Fraction]]:
    """Numbers around the published one and the checker's own."""
    yield from (("doubled", 2 * value), ("halved", value / 2), ("negated", -value - 1), ("zero", Fraction(0)))
    yield from (("a little more", value * Fraction(4097, 4096)), ("a little less", value * Fraction(4095, 4096)))
    at = float(value)
    for direction in (math.inf, -math.inf):
        yield f"an ulp towards {direction}", Fraction(math.nextafter(at, direction))
    if own is not None:
        yield "at the checker's own", own
        for sign in (1, -1):
            yield f"a hair from the checker's own, {sign}", own + sign * (abs(own) or 1) / (1 << 80)
            near = float(own)
            if not (Fraction(near) - own) * sign > 0:
                near = math.nextafter(near, sign * math.inf)
            yield f"the binary64 next to the checker's own, {sign}", Fraction(near)


def _bound(key: str, value: Fraction, shown: bool) -> Any:
    def edit(claim: Claim) -> None:
        claim["bounds"][key] = to_text(value)
        if shown:
            claim["display"][key] = decimal_up(value) if value >= 0 else "0"

    return edit


def false(claim: Claim, own: dict[str, Fraction], before: dict[str, str]) -> bool | None:
    """Whether the numbers of a claim do not fit together, or one is better than the checker's own; None if not known here."""
    new, old = ({k: parse(x) for k, x in given.items()} for given in (claim["bounds"], before))
    upper = [k for k in new if k not in (*LOWER, *GIVEN) and k in own]
    if "kappa" in new:
        gamma = parse(claim["parameters"]["gamma"])
        return new["kappa"] > own["kappa"] or not gamma * new["kappa"] > 2
    if any(k in claim["display"] and Fraction(claim["display"][k]) < new[k] for k in upper):
        return True
    if claim["kind"] != "contraction":
        return any(new[k] < own[k] for k in upper)
    gamma, r = parse(claim["parameters"]["gamma"]), new["radius"]
    q = max(abs(1 - gamma * new["mu"]), abs(1 - gamma * new["L_J"]))
    room = r - new["d"] - new["eps_W"]
    wrong = new["mu"] > own["mu"] or any(new[k] < own[k] for k in ("L_J", "d", "eps_W"))
    wrong = wrong or not q <= new["q"] < 1 or new["d"] + new["eps_W"] > (1 - new["q"]) * r
    wrong = wrong or new["floor"] < new["eps_W"] / (1 - new["q"])
    if "entry_radius" in new and not wrong:
        most = r if old["entry_radius"] == r else own["entry_radius"] * room / (r - old["d"] - old["eps_W"])
        wrong = new["entry_radius"] > most
    return wrong
