"""The checker's adjoint bounds: true, as sharp as those of the report's maker, and never guessed."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from certify.cases.kernel.report import kernel_report
from checker_reports import claim_of, findings, report_of, small_states
from flint import ctx

from certify.arithmetic import format_named
from certify.checker import adjoint as rules
from certify.checker.adjoint import Adjoint
from certify.checker.program import from_file, inputs_of
from certify.checker.rounding import FORMATS, Running, emulate, exact
from certify.graph import trace
from certify.graph.graph_file import graph_tensors
from certify.rounding import Region, adjoint
from certify.states.safetensors_file import encode_safetensors


def cancelling(x, y):
    """Two paths from every rounding of p to the result, which nearly cancel."""
    p = x * y
    return (p + x) - (p - 2 * y)


def everything(x, y):
    """Sums, products, matrix products, ReLUs decided and not, overwriting, scalings."""
    a = (x.reshape(2, 2) @ y.reshape(2, 2)).ravel()
    b = np.maximum(a - 0.3, 0) + np.maximum(y - 9, 0) - x / 8
    c = a + (b * y - a)
    return {"c": c, "s": np.sum(c * x) - 0.1 * x[0], "known": np.array([0.1, 0.5])}


KERNELS = {"cancelling": cancelling, "everything": everything}


def program_of(kernel):
    """The kernel's graph, and the checker's reading of its file."""
    graph = trace(kernel, {"x": np.ones(4), "y": np.ones(4)}, order="serial")
    saved = graph_tensors(graph)
    return graph, from_file(encode_safetensors(saved.tensors, saved.metadata))


def boxes(rng, count):
    """Points and boxes around states with entries of several sizes."""
    for k in range(count):
        middle = rng.standard_normal((2, 4)) * rng.choice([1.0, 1.0, 0.01], (2, 4))
        radius = 0.0 if k % 3 == 0 else rng.choice([2.0**-10, 0.05, 0.5])
        yield middle - radius, middle + radius


def checked(program, format, low, high):
    """The checker's adjoint bounds on a box; None if an overflow is possible."""
    ends = [inputs_of(program, {"x": end[0].tolist(), "y": end[1].tolist()}) for end in (low, high)]
    running = Running(program, FORMATS[format], *ends)
    return None if running.first is not None else Adjoint(running)


@pytest.mark.parametrize("format", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_error_exceeds_its_bound_and_both_programs_agree(name, format):
    """At samples of every box, exactly; and the producer's bounds, to one part in a million without subnormals."""
    graph, program = program_of(KERNELS[name])
    rng, sharper = np.random.default_rng(4), 0
    margin = 0.1 if format == "float16" else 1e-6  # where scalings are subnormal, the two judge otherwise
    for low, high in boxes(rng, 24):
        found = checked(program, format, low, high)
        assert found is not None
        theirs = adjoint(graph, format_named(format), Region({"x": low[0], "y": low[1]}, {"x": high[0], "y": high[1]}))
        errors = {}
        for output, nodes in program.outputs.items():
            own = [found.error(node) if node >= 0 else None for node in nodes]
            bound = theirs.error_of(output).ravel().tolist()
            assert all(e is None or e == pytest.approx(b, rel=margin) for e, b in zip(own, bound, strict=True))
            sharper += sum(e is not None and e < 0.9 * found.running.error[n] for e, n in zip(own, nodes, strict=True))
            errors[output] = own
        for share in (0.0, 1.0, rng.random((2, 4))):
            at = np.clip(low + share * (high - low), low, high)
            values = inputs_of(program, {"x": at[0].tolist(), "y": at[1].tolist()})
            floats, _ = emulate(program, FORMATS[format], values)
            for output, own in errors.items():
                with ctx.workprec(4000):
                    balls = exact(program, values, output)
                for node, e, ball in zip(program.outputs[output], own, balls, strict=True):
                    if node >= 0:
                        man, exp = (int(k) for k in ball.mid().man_exp())
                        assert abs(Fraction(floats[node]) - Fraction(man) * Fraction(2) ** exp) <= Fraction(e)
    assert sharper > 0 or name == "everything"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report with adjoint claims that running bounds do not reach."""
    folder = tmp_path_factory.mktemp("adjoint")
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal(4) for name in "xy"}
    kernel_report(cancelling, inputs, formats=["float32"], center="x", radius=0.25, bound="adjoint").write(
        folder / "r.json"
    )
    (state,) = folder.glob("inputs-*")
    return json.loads((folder / "r.json").read_text()), state.read_bytes(), lambda name: (folder / name).read_bytes()


@pytest.mark.parametrize("region", ["point", "ball"])
def test_adjoint_claims_are_proved_again(made, region):
    """Below what running bounds prove; and undecided, not certified, if a tenth is taken off."""
    report, state, files = made
    id = f"rounding/float32/serial/{region}/adjoint"
    sharp, plain = (claim_of(report, name)["bounds"]["eps_0"] for name in (id, id.removesuffix("/adjoint")))
    assert float.fromhex(sharp) < 0.9 * float.fromhex(plain)
    assert findings(report, state, files)[id].verdict == "certified"
    spoiled = json.loads(json.dumps(report))
    claim_of(spoiled, id)["bounds"]["eps_0"] = (0.9 * float.fromhex(sharp)).hex()
    found = findings(spoiled, state, files)[id]
    assert found.verdict == "undecided"
    assert "do not reach it" in found.sentence


def test_a_block_is_proved_again_and_too_many_steps_are_not_taken(monkeypatch):
    """Claims about a Poly-prox state; with a small limit they are undecided."""
    report, state = report_of(small_states(), formats=("float32",), bound="adjoint", radius=0.01)
    ids = [f"rounding/float32/serial/{region}/adjoint" for region in ("point", "ball")]
    assert [findings(report, state)[id].verdict for id in ids] == ["certified", "certified"]
    monkeypatch.setattr(rules, "MOST_STEPS", 10)
    sharper = [id for id in ids if findings(report, state)[id].verdict == "undecided"]
    assert sharper and all("too long" in findings(report, state)[id].sentence for id in sharper)


def _without_local(found, k):
    return 0.0


def _without_second(found, k):
    return list(Adjoint._secants(found, k))[: 1 if found.program.code[k - found.first][0] == "sub" else None]


def _without_widths(found, k):
    return [(j, s, 0.0) for j, s, _ in Adjoint._secants(found, k)]


@pytest.mark.parametrize(
    ("method", "wrong", "kernel"),
    [
        ("_local", _without_local, lambda x, y: x * y),
        ("_secants", _without_second, lambda x, y: x / 8 - y),
        ("_secants", _without_widths, lambda x, y: x * y),
    ],
)
def test_a_dropped_term_is_caught(method, wrong, kernel):
    """A box around 0, where secants are all width, inputs near ties: float16 exceeds the spoiled bound, never the right one."""
    _, program = program_of(kernel)
    rng, ends = np.random.default_rng(4), [[-8.0] * 8, [8.0] * 8]
    right = Adjoint(Running(program, FORMATS["float16"], *ends))
    spoiled = type("Wrong", (Adjoint,), {method: wrong})(Running(program, FORMATS["float16"], *ends))
    caught = False
    for _ in range(100):
        ties = 4 + (rng.integers(0, 1000, 8) + rng.choice([0.499, 0.501], 8)) * 2.0**-8
        values = (ties * rng.choice([-1, 1], 8)).tolist()
        floats, _ = emulate(program, FORMATS["float16"], values)
        for node, ball in zip(program.outputs["0"], exact(program, values, "0"), strict=True):
            error = abs(floats[node] - float(ball.mid()))
            assert error <= right.error(node)
            caught |= error > spoiled.error(node)
    assert caught


def test_the_checkers_own_rounding_is_covered():
    """Of its sweep, by products that binary64 always rounds down: the magnitude of an adjoint is at least the exact one."""
    rng, product, factors, exact = np.random.default_rng(3), 1.0, [], Fraction(1)
    while len(factors) < 400:
        factor = 1.0 + float(rng.random()) * 2.0**-20
        if not factors or 3 * (Fraction(product) * Fraction(factor) - Fraction(product * factor)) > Fraction(2) ** -52:
            product, exact, factors = product * factor, exact * Fraction(factor), [factor, *factors]

    def kernel(x, c):
        for k in range(len(factors)):
            x = x * c[k]
        return x

    graph = trace(kernel, {"x": np.array(1.0), "c": np.array(factors)}, order="serial")
    saved = graph_tensors(graph)
    program = from_file(encode_safetensors(saved.tensors, saved.metadata))
    values = inputs_of(program, {"x": 1.0, "c": factors})
    running = Running(program, FORMATS["float64"], values, values)
    found = Adjoint(running)
    (node,) = program.outputs["0"]
    found.local = [1.0 if k == 0 else 0.0 for k in range(node + 1)]  # of x alone: the bound is the adjoint's magnitude
    running.error[node] = float("inf")
    assert exact <= Fraction(found.error(node)) <= exact * (1 + Fraction(1, 2**40))
