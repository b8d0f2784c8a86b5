"""Libraries, names of formats and orders, and graph files whose digest fits: what does harm is rejected."""

from __future__ import annotations

import copy
import hashlib
import io
from typing import Any

import numpy as np
import pytest
from checker_kernels import inputs
from checker_reports import Report, alone, changed, claim_of, findings, kernel_of
from tampered_families import families

from certify.checker import Beyond, Rejected
from certify.checker.emulation import Ieee, emulate
from certify.checker.formats import FORMATS, format_named, order_named
from certify.checker.program import Program, from_file
from certify.checker.rounding import Running
from certify.graph.graph_file import CODES
from certify.states import Saved
from certify.states.files import load_stream
from certify.states.safetensors_file import encode_safetensors

NAME = "rounding/bfloat16,ftz/any-order:float32/ball"


def with_library(sentences: list[str]) -> tuple[Report, str]:
    """The claim with other sentences about its library."""
    family = families()["any order"]
    held = claim_of(family.report, NAME)["assumptions"]
    kept = [x for x in held if " returns " not in x]
    return alone(changed(family.report, NAME, "assumptions", to=[*kept[:-1], *sentences, kept[-1]]), NAME), NAME


def library(
    *ulps: str, name: str = "the math library", functions: tuple[str, ...] = ("exp", "log", "tanh")
) -> list[str]:
    """The sentences."""
    return [
        f"{f} of {name} returns "
        + (
            f"a number within {u} ulp of the exact result, in the range of the function"
            if u
            else "the correctly rounded result"
        )
        for f, u in zip(functions, ulps, strict=True)
    ]


@pytest.mark.parametrize(
    ("ulps", "verdict"),
    [
        (("1.0", "1.0", "1.0"), "certified"),
        (("0.5", "1.0", "1.0"), "certified"),  # a stronger assumption: the claim says less
        (("", "", ""), "certified"),
        (("1.0", "0.75", "1.0"), "certified"),
        *(
            ((u, "1.0", "1.0"), "rejected")
            for u in ("2.0", "1.001", "1e+2", "0.25", "0.0", "nan", "inf", "1", "01.0", "-1.0", "1.00")
        ),
        (("1.0", "1.0", "2.0"), "rejected"),
    ],
)
def test_the_ulps_of_a_claim_are_those_of_its_bounds(ulps: tuple[str, ...], verdict: str) -> None:
    """More ulps need larger bounds; fewer are a stronger assumption, under which the bound holds as well."""
    report, name = with_library(library(*ulps))
    family = families()["any order"]
    assert findings(report, family.state, family.files)[name].verdict == verdict


def test_ulps_that_are_all_of_a_result_prove_nothing() -> None:
    """Beyond the checker, as beyond the producer."""
    report, name = with_library(library("200.0", "1.0", "1.0"))
    family = families()["any order"]
    assert findings(report, family.state, family.files)[name].verdict == "undecided"


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        library("1.0", "1.0", functions=("exp", "log")),
        library("1.0", "1.0", "1.0", functions=("log", "exp", "tanh")),
        library("1.0", "1.0", "1.0", "1.0", functions=("exp", "log", "tanh", "sigmoid")),
        library("1.0", "1.0", "1.0", functions=("exp", "log", "sin")),
        library("1.0", "1.0", "1.0", functions=("exp", "log", "log")),
        library("1.0", "1.0", functions=("exp", "log")) + library("1.0", name="another", functions=("tanh",)),
        library("1.0", "1.0", "1.0", name="a: b"),
        library("1.0", "1.0", "1.0", name="it returns 1, and exp of b"),
        library("1.0", "1.0", "1.0", name=""),
        [x + " " for x in library("1.0", "1.0", "1.0")],
        [x.replace(", in the range of the function", "") for x in library("1.0", "1.0", "1.0")],
        [*library("1.0", "1.0", "1.0"), "sqrt of the math library returns the correctly rounded result"],
    ],
)
def test_other_sentences_about_a_library_are_rejected(sentences: list[str]) -> None:
    """One for each function that is called, in order, of one library, in these words."""
    report, name = with_library(sentences)
    family = families()["any order"]
    assert findings(report, family.state, family.files)[name].verdict == "rejected"


@pytest.mark.parametrize("name", [
    "float12", "p=11", "p=0,emin=1,emax=2", "p=25,emin=-9,emax=9", "", "p=5,emin=-401,emax=9",
    "float16,saturate,ftz", "float16,ftz,ftz", "p=011,emin=-9,emax=9",
])  # fmt: skip
def test_unknown_formats_are_beyond_the_checker(name: str) -> None:
    """Not emulated here, or not the name of a format."""
    with pytest.raises(Beyond):
        format_named(name)


@pytest.mark.parametrize("name", [None, 3, []])
def test_what_is_no_name_is_no_format(name: Any) -> None:
    """Ill-formed, not unknown."""
    with pytest.raises(Rejected):
        format_named(name)


@pytest.mark.parametrize(
    "name", ["", None, "tree", "blocked", "blocked(0)", "serial:e4m3", "any-order:", "pairwise(2)", 1]
)
def test_unknown_orders_are_rejected(name: Any) -> None:
    """Not the name of an order."""
    with pytest.raises(Rejected):
        order_named(name)


@pytest.fixture(scope="module", params=["gates", "attention", "sums"])
def made(request: pytest.FixtureRequest) -> tuple[Report, bytes, Saved]:
    """A report on a kernel in blocks with an accumulator, its inputs and its graph."""
    kernel, at, center = inputs()[request.param]
    report, state, files = kernel_of(
        kernel, at, formats="tf32", order="blocked(2):float32", center=center, radius=2.0**-8
    )
    data = files(report["subject"]["graph"]["file"])
    return report, state, load_stream(io.BytesIO(data), "graph")


def verdicts(made: tuple[Report, bytes, Saved], graph: Saved) -> set[str]:
    """Of the claims, beside a graph whose digest the subject names."""
    report, state, _ = copy.deepcopy(made)
    data = encode_safetensors(graph.tensors, graph.metadata)
    report["subject"]["graph"]["sha256"] = hashlib.sha256(data).hexdigest()
    try:
        found = findings(report, state, lambda name: data).values()
    except Rejected:
        return {"rejected"}
    except Beyond:
        return {"undecided"}
    return {f.verdict for f in found if f.claimed != "undecided"}


def test_another_order_or_format_in_the_graph_file(made: tuple[Report, bytes, Saved]) -> None:
    """The order is that of the claims; formats of operations of their own are among the assumptions."""
    _, _, graph = made
    assert verdicts(made, graph) == {"certified"}
    for order in ("serial", "blocked(3):float32", "blocked(2)", "any-order", "blocked(2):float64", "tree"):
        assert verdicts(made, Saved(graph.tensors, {**graph.metadata, "order": order})) == {"rejected"}
    n = len(graph.tensors["op"])
    for name, index in (("float16", 0), ("float64", 0), ("tf32", 1), ("tf32", -2), ("nothing", 0)):
        own = np.full(n, -1, dtype=np.int32)
        own[-1] = index
        spoiled = Saved({**graph.tensors, "format": own}, {**graph.metadata, "formats": f'["{name}"]'})
        assert "certified" not in verdicts(made, spoiled)
    assert verdicts(made, Saved({**graph.tensors, "format": np.zeros(n, dtype=np.int32)}, graph.metadata)) == {
        "rejected"
    }
    assert verdicts(made, Saved(graph.tensors, {**graph.metadata, "formats": "[]"})) == {"rejected"}


def test_other_operations_in_the_graph_file(made: tuple[Report, bytes, Saved]) -> None:
    """A code that calls a function, or no longer calls it, needs other sentences; no code makes the checker fail."""
    _, _, graph = made
    called = {CODES.index(x) for x in ("exp", "log", "tanh", "sigmoid")}
    at, rejected = graph.tensors["op"].ravel(), 0
    for k in range(0, len(at), max(1, len(at) // 10)):
        for code in range(len(CODES) + 3):
            op = at.copy()
            op[k] = code
            found = verdicts(made, Saved({**graph.tensors, "op": op}, graph.metadata))
            if set(op.tolist()) & called != set(at.tolist()) & called and code < len(CODES):
                assert found == {"rejected"}, (k, code)
            rejected += "certified" not in found
    assert rejected > 100


@pytest.mark.parametrize(
    ("op", "values", "ok"),
    [
        ("div", [1.0, 0.0], False), ("div", [0.0, -0.0], False), ("sqrt", [-1.0], False), ("log", [0.0], False),
        ("log", [-2.0], False), ("sqrt", [-0.0], True), ("div", [6e4, 0.5], None), ("exp", [12.0], None),
        ("exp", [-99.0], True),
        ("exp", [6e4], None), ("tanh", [-6e4], True), ("sigmoid", [-6e4], True),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_no_overflow(op: str, values: list[float], ok: bool | None) -> None:
    """A replay that divides by 0, or takes a root or logarithm that is no number, refutes nothing."""
    program = Program({"x": list(range(len(values)))})
    node = program.emit(op, list(range(len(values))))
    if ok is False:
        with pytest.raises(Rejected, match="before anything overflows"):
            emulate(program, FORMATS["float16"], values)
        assert Running(program, FORMATS["float16"], values, values, {"log": None}).first == node
    else:
        assert (emulate(program, FORMATS["float16"], values)[1] is None) == bool(ok)


def test_casts_in_a_file_made_by_hand() -> None:
    """x is cast to float16, added in float32, and the sum rounded to the program's bfloat16: the numbers and their bounds."""
    tensors: dict[str, Any] = {
        "op": np.array([CODES.index("sqrt") + 8, 1, CODES.index("sqrt") + 8], dtype=np.uint8),
        "at": np.array([0, 1, 3, 4], dtype=np.int64), "operands": np.array([0, 2, 1, 3], dtype=np.int32),
        "exponent": np.zeros(3, dtype=np.int32), "place": np.zeros(3, dtype=np.int32), "constants": np.zeros(1),
        "format": np.array([0, 1, -1], dtype=np.int32), "support/x": np.ones(2, dtype=np.uint8),
        "ids/y": np.array([4], dtype=np.int32), "known/y": np.zeros(1),
    }  # fmt: skip
    metadata = {"order": "serial", "inputs": '["x"]', "outputs": '["y"]', "places": '[["", "y"]]'}
    metadata["formats"] = '["float16", "float32"]'
    program = from_file(encode_safetensors(tensors, metadata))
    assert [c[0] for c in program.code] == ["cast", "sum", "cast"]
    values = [1 + 2.0**-7 + 2.0**-12, 2.0**-20]
    got, first = emulate(program, FORMATS["float32"], values)
    assert (first, got[2:]) == (None, [1 + 2.0**-7, 1 + 2.0**-7 + 2.0**-20, 1 + 2.0**-7 + 2.0**-20])
    bounds = Running(program, FORMATS["float32"], values, values)
    assert bounds.error[2] >= 2.0**-12 and bounds.error[4] < 2.0**-11 + 2.0**-22
    assert Ieee(FORMATS["bfloat16"], plain=False).add(1.0, 2.0**-8 + 2.0**-60) == 1 + 2.0**-7  # no double rounding
