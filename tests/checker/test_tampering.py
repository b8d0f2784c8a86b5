"""Reports of every kind of claim, changed in one place at a time: what does harm is rejected by name, what does none passes.

Whether a change does harm is decided without asking the checker about the changed report:

| changed | harmful | as |
| --- | --- | --- |
| statement, semantics, theorem, assumptions, id, kind | always | they follow from kind and parameters alone |
| a parameter that a word or the id depends on | always | the words or the id no longer follow |
| `tol` of a contraction | if the smallest ball misses it | no word depends on it |
| `radius`, `through` of counts and precision, a new step | where no such ball is certified | tested: 0, -1, 2**-1074, 2**1000 |
| an upper bound | if below the checker's own number of the untouched report | which is above all attained errors, see below |
| a lower bound, `mu` or `entry_radius` | if above the checker's own number | as above |
| a number of a contraction | also if q < 1, d + eps <= (1 - q) r, floor >= eps / (1 - q) fail | by exact arithmetic here |
| a bound that is published with a slack | one ulp below it is still true | one ulp below the checker's own number is not |
| a decimal shown for an upper bound | if below the bound, or no decimal | it may not make a bound look better |
| a centre | if the exact displacement, by the producer's rational update, exceeds d | |
| the centre of a refutation | if it moves by more than the cube | the fixed point is within the cube |
| the vector of a refutation | if its quotient, by exact differences of updates, is below kappa | |
| the inputs of an overflow | if outside the ball or the mask, or another place overflows first | |
| a verdict | always, but undecided with a reason | which claims nothing |
| swaps between claims | by the rules above, of both claims | |
| a claim twice, or one missing that others rest on or that is required | always | |
| a claim missing that nothing rests on; required claims, if the verdict follows | never | |
| subject, schema, overall verdict; a byte of the state or graph file | always | the name of a user's kernel is free |
| the reason of an overflow | always | but for the source line, which no file of the report has |
| a witness, or an entry of one, that no proof looks at | always | |
| observed, other reasons, producer, attempts, larger decimals, weaker bounds that fit together | never | |

An unknown case or kind with an id of its own neither passes nor is rejected: exit code 1, tested with the command.
"""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from tampered_families import Family, families
from tampering import Mutation, bounds, changed, harmless, parameters, put, texts, verdicts
from tampering_wholes import displacement, quotient, surroundings, swaps, witnesses

from certify.certificate import parse, to_text
from certify.checker import Rejected, check
from certify.errors import InputRejected
from certify.states.files import load_stream

OF_CLAIMS = (texts, harmless, verdicts, parameters, bounds, witnesses, swaps)
#: What is not a claim is named by one of these.
PARTS = ("report", "claim", "tensor", "digest", "file", "states", "producer")
#: One claim of each kind, method, verdict and region; how many changes of them there are at least, by family.
USUAL = {
    "stage": (
        [
            "exactness/point",
            "rounding/float32/serial/point",
            "rounding/float32/serial/ball/majorant",
            "range/float32/serial/point",
            "contraction/local",
            "contraction/interval",
            "contraction/face",
            "updates/float64",
            "precision/1e-06",
            "precision/update/0.001",
        ],
        3900,
    ),
    "global": (["contraction/global", "updates/float32"], 750),
    "refuted": (["contraction/face"], 450),
    "faced": (["contraction/face"], 650),
    "states": (["range/float16/serial/point/state=1", "range/float16/serial/ball/state=1"], 650),
    "replay": (["updates/float64"], 300),
    "through": (["updates/float64"], 300),
    "any order": (["rounding/bfloat16,ftz/any-order:float32/ball", "range/e4m3/any-order:float32/ball"], 600),
    "blocks": (["rounding/tf32/blocked(2)/point", "range/p=9,emin=-7,emax=9/blocked(2)/ball"], 600),
    "fused": (["rounding/tf32/fma/ball", "exactness/point"], 400),
    "kernel": (["range/float16/serial/ball", "rounding/float32/serial/ball", "range/float32/serial/ball"], 1000),
}


def rejections(family: Family, report: object) -> list[str] | None:
    """What the checker says of a report: sentences of rejection, or None if every claim of it passes."""
    try:
        found = check(json.dumps(report).encode(), family.state, family.files)
    except Rejected as error:
        return [str(error)]
    assert all(f.verdict in (f.claimed, "rejected") for f in found)
    return [f"claim {f.id}: {f.sentence}" for f in found if f.verdict == "rejected"] or None


def require(family: Family, mutation: Mutation, *names: str) -> None:
    """A harmful change is rejected by a sentence with one of the names, a harmless one passes."""
    said = rejections(family, mutation.report)
    assert (said is not None) == mutation.harmful, (mutation.label, mutation.harmful, said)
    for sentence in said or []:
        assert sentence.isprintable() and len(sentence) < 500, sentence
    assert not said or any(name in x for x in said for name in names), (mutation.label, said)


def of_claim(family: Family, name: str) -> Iterator[Mutation]:
    """All changes of a claim."""
    for generator in OF_CLAIMS:
        yield from generator(family, name)


def tamper(name: str, claims: list[str]) -> int:
    """Make all changes of some claims of a family; how many there were."""
    family, count = families()[name], 0
    for claim in claims:
        for mutation in of_claim(family, claim):
            renamed = [str(c.get("id")) for c in mutation.report["claims"]]
            # a claim without an id is named by its place; another verdict may spoil that of the report
            require(family, mutation, claim, *set(renamed) - set(family.chosen), "claim ", "the report says")
            count += 1
    return count


@pytest.mark.parametrize("name", USUAL)
def test_each_part_of_a_claim(name: str) -> None:
    """Words, verdicts, parameters, bounds, witnesses, and swaps with every later claim: more than 7,000 changes."""
    claims, least = USUAL[name]
    assert tamper(name, claims) >= least


@pytest.mark.slow
@pytest.mark.parametrize("name", USUAL)
def test_each_part_of_every_claim(name: str) -> None:
    """The claims that are left out above."""
    tamper(name, [x for x in families()[name].chosen if x not in USUAL[name][0]])


def test_every_kind_and_verdict_is_tampered_with() -> None:
    """Also counts with a replay, through an inner ball, by norms alone; formats finer and coarser than enough."""
    claims = [(name, families()[name].claim(x)) for name, (chosen, _) in USUAL.items() for x in chosen]
    kinds = {(c["kind"], c["parameters"].get("method"), c["verdict"]) for _, c in claims}
    assert kinds == {
        ("exactness", None, "certified"),
        *(("rounding", x, "certified") for x in ("running", "majorant")),
        *(("range", None, x) for x in ("certified", "refuted")),
        *(("contraction", x, "certified") for x in ("global", "local", "interval", "face")),
        ("contraction", "face", "refuted"),
        ("updates", None, "certified"),
        ("precision", None, "certified"),
    }
    updates = {name: c["parameters"] for name, c in claims if c["kind"] == "updates"}
    assert updates["replay"]["replayed"] > 0 == updates["stage"]["replayed"]
    assert updates["through"]["through"] != "" == updates["replay"]["through"]
    assert {c["parameters"]["region"]["kind"] for _, c in claims if "region" in c["parameters"]} == {"point", "ball"}
    assert sum(least for _, least in USUAL.values()) > 3000


@pytest.mark.parametrize("name", ["stage", "states", "kernel"])
def test_what_is_around_the_claims(name: str) -> None:
    """Subject, required claims, verdict, claims that are twice or missing."""
    count = 0
    for mutation in surroundings(families()[name]):
        # what is said of a control that is no number names only the number
        require(families()[name], mutation, *PARTS, "number", "exponent", "lowest terms")
        count += 1
    assert count > 250


def test_the_numbers_that_decide_are_above_what_is_attained() -> None:
    """The checker's own bounds against errors, displacements and quotients that other code found."""
    rng = np.random.default_rng(0)
    for family in families().values():
        for name in family.chosen:
            claim, own = family.claim(name), family.own[name]
            attained = {k.replace("error", "eps"): parse(x) for k, x in claim["observed"].items() if "error" in k}
            for key, error in attained.items():
                assert own[key] >= error, (name, key)
                below = changed(family, name, f"{key} just below", put("bounds", key, to=to_text(error / 2)), error > 0)
                if error:
                    require(family, below, name)
            if claim["kind"] == "contraction" and claim["verdict"] == "certified":
                assert own["d"] ** 2 >= displacement(family, claim)
                n = sum(x != "0x0p+0" for x in claim["witness"]["center"])
                for vector in rng.normal(size=(5, n)).tolist():
                    value = Fraction(quotient(family, claim, vector))
                    assert own["mu"] * (1 - Fraction(1, 10**9)) <= value <= own["L_J"] * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("name", ["stage", "states", "kernel"])
def test_bytes_of_the_state_file(name: str) -> None:
    """Each byte changed: another file, unless a control is written otherwise but is the same number."""
    family = families()[name]
    report, same, numbers = json.dumps(family.report).encode(), 0, _numbers(family.state)
    for k in range(len(family.state)):
        for flip in (1 << k % 8, 0x20):
            spoiled = bytearray(family.state)
            spoiled[k] ^= flip
            if _numbers(bytes(spoiled)) == numbers:
                same += 1
                assert all(f.verdict != "rejected" for f in check(report, bytes(spoiled), family.files))
            else:
                with pytest.raises(Rejected):
                    check(report, bytes(spoiled), family.files)
    assert same < 100


def _numbers(data: bytes) -> object:
    """What a state file holds, by the producer's reader; None if it is no state file."""
    try:
        saved = load_stream(io.BytesIO(data), "state")
        controls = {k: float.fromhex(x) if "x" in x.lower() else float(x) for k, x in saved.metadata.items()}
    except (InputRejected, ValueError, OverflowError):
        return None
    tensors = {k: (x.dtype.str, x.shape, x.tobytes()) for k, x in saved.tensors.items()}
    return tensors, controls


def test_bytes_of_the_graph_file() -> None:
    """Each byte changed: its digest is another."""
    family = families()["kernel"]
    report = json.dumps(family.report).encode()
    graph = family.files(family.report["subject"]["graph"]["file"])
    for k in range(0, len(graph), 3):
        spoiled = bytearray(graph)
        spoiled[k] ^= 1 << k % 8
        with pytest.raises(Rejected, match="digest"):
            check(report, family.state, lambda name, data=bytes(spoiled): data)


@pytest.mark.parametrize("name", USUAL)
def test_the_command(name: str, tmp_path) -> None:
    """Of each family five changes through the real command: exit code 3 and a sentence with the claim's id, or 0 and none."""
    family, claim = families()[name], USUAL[name][0][-1]
    (tmp_path / "state.safetensors").write_bytes(family.state)
    if "graph" in family.report["subject"]:
        graph = family.report["subject"]["graph"]["file"]
        (tmp_path / graph).write_bytes(family.files(graph))
    changes = list(of_claim(family, claim))
    some = random.Random(name).sample(
        [m for m in changes if m.harmful and not re.search(r"id = |without id|verdict|'id',\) swapped", m.label)], 4
    )
    some += random.Random(name).sample([m for m in changes if not m.harmful], 1)
    for mutation in some:
        (tmp_path / "r.json").write_text(json.dumps(mutation.report))
        line = [sys.executable, "-m", "certify.cli.main", "check", str(tmp_path / "r.json")]
        run = subprocess.run(line, capture_output=True, text=True, check=False)
        assert run.returncode == (3 if mutation.harmful else 0), (mutation.label, run.stderr)
        assert (claim in run.stderr or "the report says" in run.stderr) == mutation.harmful, (
            mutation.label,
            run.stderr,
        )
