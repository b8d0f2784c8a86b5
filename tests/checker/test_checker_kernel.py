"""Reports on a user's kernel: the graph file is interpreted, and refused where an index is out of place."""

from __future__ import annotations

import copy
import hashlib
import json

import numpy as np
import pytest
from certify.cases.kernel.report import kernel_report
from checker_reports import alone, changed, claim_of, findings, kernel_of

from certify import InputRejected, cast, precision
from certify.arithmetic import format_named
from certify.checker import Beyond, Rejected
from certify.checker.program import from_file, inputs_of
from certify.checker.rounding import FORMATS, emulate
from certify.graph import layer, trace
from certify.graph.graph_file import graph_tensors
from certify.rounding.posterior import computed
from certify.states import Saved
from certify.states.safetensors_file import encode_safetensors


def kernel(A, x):
    """Every operation that a graph has."""
    with layer("1"):
        y = A @ x
    with layer("2"):
        z = np.maximum(y * 0.3 - 1.5, 0)
        w = y + (z - y)
    s = np.sum(z * z) + 2 * y[0]
    return {"z": z, "s": s, "w": -w, "known": np.array([0.1, 0.0])}


RNG = np.random.default_rng(0)
INPUTS = {"A": RNG.normal(size=(3, 4)), "x": 4 * RNG.normal(size=4)}
GRAPH = trace(kernel, INPUTS, order="serial")


def encoded(saved: Saved) -> bytes:
    """The bytes of a graph file."""
    return encode_safetensors(saved.tensors, saved.metadata)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report, its input file, and what reads the files beside it; 'large' overflows float16."""
    folder = tmp_path_factory.mktemp("kernel")
    inputs = {**INPUTS, "x": 1e4 * INPUTS["x"]}
    kernel_report(kernel, inputs, formats=["float16", "float32"], center="x", radius=0.5).write(folder / "r.json")
    report = json.loads((folder / "r.json").read_text())
    (state,) = folder.glob("inputs-*")
    return report, state.read_bytes(), lambda name: (folder / name).read_bytes()


def test_every_claim_is_proved_again(made):
    """At the inputs and on the ball; an overflow of float16 is replayed."""
    report, state, files = made
    found = findings(report, state, files)
    assert {c["id"]: c["verdict"] for c in report["claims"]} == {f.id: f.verdict for f in found.values()}
    assert {"certified", "refuted", "undecided"} == {f.verdict for f in found.values()}


@pytest.mark.parametrize("order", ["serial", "any-order"])
@pytest.mark.parametrize("name", ["p=3,emin=-4,emax=5", "p=3,emin=-4,emax=5,saturate", "float16"])
def test_known_numbers_of_outputs_may_overflow(name, order):
    """60 is no number of a format whose largest is 56: refuted at that output, and no report may say anything else of it."""
    mask = np.array([True, False])
    made = kernel_of(
        lambda x: {"x": x * x, "known": np.where(mask, x, 60.0)},
        {"x": np.ones(2)},
        formats=name,
        order=order,
        radius=0.25,
    )
    report, state, files = made
    fits = name == "float16"
    assert {f.verdict for f in findings(*made).values()} == ({"certified"} if fits else {"refuted", "undecided"})
    good = kernel_of(lambda x: {"x": x * x, "known": x}, {"x": np.ones(2)}, formats=name, order=order, radius=0.25)[0]
    for region in ("point", "ball"):
        claim = f"range/{name}/{order}/{region}"
        if fits:
            assert 60 <= float.fromhex(claim_of(report, claim)["bounds"]["max_magnitude"]) <= 60.001
            bad = [changed(report, claim, "bounds", "max_magnitude", to="0x1.dffp+5")]
        else:
            witness = claim_of(report, claim)["witness"]
            assert (witness["layer"], witness["register"]) == ("", "known")
            bad = [changed(report, claim, "witness", "register", to=other) for other in ("x", "", "0")]
            for kind in ("range", "rounding"):
                bad.append({**report, "claims": [claim_of(good, f"{kind}/{name}/{order}/{region}")]})
        for tampered in bad:
            (about,) = (c for c in tampered["claims"] if c["id"] == claim or len(tampered["claims"]) == 1)
            assert findings(alone(tampered, about["id"]), state, files)[about["id"]].verdict == "rejected"


@pytest.mark.parametrize("order", ["serial", "any-order"])
def test_digits_are_no_more_than_the_bound_leaves(order):
    """Of each method's claims, of several outputs the fewest; a tenth less is not refused, and nothing but a number is one."""

    def outputs(x):
        return {"y": x * x - 0.3 * x, "z": np.sum(x), "known": np.array([0.5, 0.0]), "zero": x * 0}

    inputs = {"x": np.array([0.7, 3.0, 5.0])}
    report, state, files = kernel_of(outputs, inputs, formats="float16", order=order, bound="adjoint", radius=0.1)
    name = f"rounding/float16/{order}/point"
    shown = claim_of(report, name)["display"]
    assert 2.0 < float(shown["digits_worst"]) <= float(shown["digits_norm"]) < 4.0
    for key in ("digits_norm", "digits_worst"):
        fewer, more = (f"{float(shown[key]) + change:.1f}" for change in (-0.1, 0.2))
        assert (
            findings(alone(changed(report, name, "display", key, to=fewer), name), state, files)[name].verdict
            == "certified"
        )
        for about in (name, f"{name}/majorant", f"{name}/adjoint"):
            for text in (more, "12.0", "exact", "9999.9", "-1.0", "1e3", "nan", "1.05"):
                bad = alone(changed(report, about, "display", key, to=text), about)
                assert findings(bad, state, files)[about].verdict == "rejected", (about, text)
        ball = f"rounding/float16/{order}/ball"
        bad = alone(changed(report, ball, "display", key, to="0.0"), ball)
        assert findings(bad, state, files)[ball].verdict == "rejected"


def test_exact_kernels_have_exact_digits():
    """Errors are 0 and so are entries; where all entries are 0 there are no digits."""
    report, state, files = kernel_of(lambda x: 2 * x, {"x": np.array([0.5, 0.0])}, formats="float16")
    name = "rounding/float16/serial/point"
    assert claim_of(report, name)["display"]["digits_worst"] == "exact"
    assert findings(report, state, files)[name].verdict == "certified"
    report, state, files = kernel_of(lambda x: 2 * x, {"x": np.zeros(2)}, formats="float16")
    assert "digits_worst" not in claim_of(report, name)["display"]


@pytest.mark.parametrize("order", ["serial:float32", "any-order:float32", "blocked(2):float32"])
@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16"])
def test_accumulators_hold_the_formats_of_sums(name, order):
    """Sums in float16 are added in float32 whatever the program's format: all is proved again. Sums in float64 are not."""

    def sums(A, x):
        with precision("float16"):
            y = A @ x
        return {"y": y, "s": np.sum((x * x).astype(np.float16))}

    inputs = {"A": INPUTS["A"], "x": INPUTS["x"] / 8}
    report, state, files = kernel_of(sums, inputs, formats=name, order=order, radius=2.0**-12, center="x")
    assert {f.verdict for f in findings(report, state, files).values()} == {"certified"}
    rounded = f"every total is rounded once to {name}, or to the format that its operation is marked with"
    assert f"products are added in float32, {rounded}" in report["claims"][0]["assumptions"]
    with pytest.raises(InputRejected, match="accumulator float32 cannot hold every number of float64"):
        kernel_of(lambda x: {"s": np.sum(cast(x, "float64") * 1.5)}, {"x": inputs["x"]}, formats="float64", order=order)


@pytest.mark.parametrize("name", FORMATS)
def test_the_graph_file_is_the_program(name):
    """The same bits in every format, outputs of known numbers included, and the same number of operations."""
    program = from_file(encoded(graph_tensors(GRAPH)))
    assert program.operations == GRAPH.n_operations
    values, first = emulate(
        program, FORMATS[name], inputs_of(program, {n: x.ravel().tolist() for n, x in INPUTS.items()})
    )
    assert first is None
    for output in ("z", "s", "w"):
        wanted = computed(GRAPH, format_named(name), INPUTS, output).ravel().tolist()
        assert program.values(output, values) == wanted


def test_false_claims_about_a_kernel_are_rejected(made):
    """Bounds, words, the ball's centre, and a witness that does not overflow."""
    report, state, files = made
    ball, over = "rounding/float32/serial/ball", "range/float16/serial/ball"
    witness = claim_of(report, over)["witness"]["inputs"]["x"]
    for name, *path, value in (
        (ball, "bounds", "eps_s", "0x1p-60"),
        (ball, "bounds", {}),
        (ball, "parameters", "region", "center", "A"),
        (ball, "parameters", "region", "radius", "0x1p+1"),
        (ball, "assumptions", claim_of(report, ball)["assumptions"][:4]),
        (over, "witness", "inputs", {}),
        (over, "witness", "inputs", "x", ["0x0p+0"] * len(witness)),
        (over, "witness", "layer", "2"),
    ):
        bad = alone(changed(report, name, *path, to=value), name)
        assert findings(bad, state, files)[name].verdict == "rejected"


@pytest.mark.parametrize("key", ["graph", "tensors", "kernel", "file", "sha256"])
def test_the_subject_is_the_kernel_and_its_inputs(made, key):
    """Without one of its parts, or with another graph, there is no subject."""
    report, state, files = made
    bad = copy.deepcopy(report)
    if key in ("file", "sha256"):
        bad["subject"]["graph"][key] = {"file": "../graph", "sha256": "0" * 64}[key]
    else:
        bad["subject"][key] = None
    with pytest.raises(Rejected):
        findings(bad, state, files)


def test_another_graph_under_the_same_name_is_rejected(made):
    """Its digest differs."""
    report, state, _ = made
    with pytest.raises(Rejected, match="digest"):
        findings(report, state, lambda name: encoded(graph_tensors(trace(lambda A, x: A @ x, INPUTS, order="serial"))))


def test_bytes_of_a_graph_file_cannot_be_changed_unseen(made):
    """Any change of one entry of one array is refused, or is another program that has another digest; never a crash."""
    good = graph_tensors(GRAPH)
    refused = 0
    for name, array in good.tensors.items():
        for k in range(0, array.size, max(1, array.size // 12)):
            for value in (-1, 0, 7, 2**31 - 1):
                with np.errstate(over="ignore"):
                    spoiled = array.copy().ravel()
                    spoiled[k] = np.array(value).astype(array.dtype)
                data = encoded(Saved({**good.tensors, name: spoiled.reshape(array.shape)}, good.metadata))
                try:
                    program = from_file(data)
                except (Rejected, Beyond) as error:
                    refused += 1
                    assert str(error).isprintable()
                    continue
                values = [1.0] * sum(map(len, program.inputs.values()))
                emulate(program, FORMATS["float64"], values)
    assert refused > 200


@pytest.mark.parametrize("key", ["order", "inputs", "outputs", "places"])
@pytest.mark.parametrize("text", ["", "[]", "1", '["x", "x"]', "[[1, 2]]", '{"a": 1}', "tree"])
def test_metadata_of_a_graph_file_are_checked(key, text):
    """Names, places and the order of sums."""
    good = graph_tensors(GRAPH)
    with pytest.raises(Rejected):
        from_file(encoded(Saved(good.tensors, {**good.metadata, key: text})))


def test_an_overwrite_needs_its_difference():
    """x + d is exactly y only if d is y - x: another node in its place is refused."""
    good = graph_tensors(GRAPH)
    k = int(np.flatnonzero(good.tensors["op"] == 7)[-1])
    operands = good.tensors["operands"].copy()
    operands[good.tensors["at"][k + 1] - 1] -= 1
    with pytest.raises(Rejected, match="difference"):
        from_file(encoded(Saved({**good.tensors, "operands": operands}, good.metadata)))


def test_the_digest_is_that_of_the_file(made):
    """As `sha256sum` gives it."""
    report, _, files = made
    graph = report["subject"]["graph"]
    assert hashlib.sha256(files(graph["file"])).hexdigest() == graph["sha256"]
