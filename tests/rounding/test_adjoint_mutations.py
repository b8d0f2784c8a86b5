"""An adjoint bound with a dropped term is caught: by the soundness tests, or by an adversary who reaches the right bound."""

from dataclasses import replace

# the package exports functions of these names
from importlib import import_module

import numpy as np
import pytest
from adjoint_cases import Tally, check_functions, check_polynomial

from certify.arithmetic import BINARY16, BINARY32, format_named
from certify.graph import Op, trace, with_order
from certify.rounding import Region, adjoint, point, running
from certify.rounding.attained import attained_in
from certify.rounding.posterior import computed, error, exact
from certify.rounding.secants import Secants
from certify.rounding.sweep import Sweep

secants_module = import_module("certify.rounding.secants")
sweep_module = import_module("certify.rounding.sweep")
adjoint_module = import_module("certify.rounding.adjoint")
together_module = import_module("certify.rounding.together")


def _violations(seeds=range(60)):
    """Of kernels of all operations, in formats in which errors are relatively large."""
    tally = Tally()
    for seed in seeds:
        for name in ("float16", "e4m3", "p=5,emin=-3,emax=4"):
            check_polynomial(seed, format_named(name), "serial", 3, 2, tally)
            check_functions(seed, format_named(name), "serial", tally)
            if tally.violations:
                return tally.violations
    return []


def _without_secant_widths(graph, arithmetic, values):
    """Secants at the computed middle alone: no room for E / 2, nor for the region."""
    found = _secants(graph, arithmetic, values)
    return replace(found, rad=np.zeros_like(found.rad))


def _without_error_in_widths(graph, arithmetic, values):
    """Products see the computed enclosure alone."""
    calm = values.copy()
    calm[2] = 0.0
    found, other = _secants(graph, arithmetic, values), _secants(graph, arithmetic, calm)
    return replace(found, rad=other.rad)


def _without_inputs(graph, arithmetic, values):
    """Converting the inputs makes no error."""
    found = _secants(graph, arithmetic, values)
    local = found.local.copy()
    local[: graph.n_inputs] = 0.0
    return replace(found, local=local)


def _without_cuts(graph, arithmetic, values):
    """What a cut node adds is its own rounding alone."""
    found = _secants(graph, arithmetic, values)
    return replace(found, local=secants_module.local_terms(graph, arithmetic, values))


def _half_locals(graph, arithmetic, values):
    """Every rounding moves by half of what it may."""
    found = _secants(graph, arithmetic, values)
    return replace(found, local=found.local / 2)


def _first_partials(graph, arithmetic, values):
    """Quotients, maxima and selections depend on their first operand alone."""
    found = _secants(graph, arithmetic, values)
    return replace(found, partials={k: parts[:1] for k, parts in found.partials.items()})


def _middle_partials(graph, arithmetic, values):
    """Secants of functions and ReLUs at the middle of their intervals."""
    found = _secants(graph, arithmetic, values)
    still = {k: tuple(replace(p, rad=0.0 * p.rad) for p in parts) for k, parts in found.partials.items()}
    return replace(found, partials=still)


_secants = secants_module.secants
SECANTS = (
    _without_secant_widths,
    _without_inputs,
    _half_locals,
    _first_partials,
    _middle_partials,
)


def test_the_right_rules_pass():
    """The kernels below, with nothing dropped."""
    assert _violations(range(4)) == []


@pytest.mark.parametrize("wrong", SECANTS, ids=lambda f: f.__name__.strip("_"))
def test_a_wrong_secant_is_caught(wrong, monkeypatch):
    """Some error exceeds its bound."""
    monkeypatch.setattr(adjoint_module, "secants", wrong)
    assert _violations()


def test_a_cut_node_counts_with_all_of_its_error(monkeypatch):
    """A comparison that the floats of x and y decide otherwise than x and y; and a root of a number that may be 0."""
    below = float(np.nextafter(0.1, 0.0))  # converted to the float of 0.1
    step = trace(lambda x, y: np.where(x < y, -1.0, 1.0) * x, {"x": 1.0, "y": 1.0}, order="serial")
    root = trace(lambda x, y: (lambda d: np.sqrt(d * d))(x - y), {"x": 1.0, "y": 1.0}, order="serial")
    for graph, x, y in ((step, below, 0.1), (root, 1.0 + 2.0**-12, 1.0)):
        inputs = {"x": np.array(x), "y": np.array(y)}
        off = float(error(computed(graph, BINARY16, inputs, "0"), exact(graph, inputs, "0"))[()])
        assert adjoint(graph, BINARY16, point(inputs)).error_of("0") >= off > 0
        with monkeypatch.context() as patch:
            patch.setattr(adjoint_module, "secants", _without_cuts)
            assert adjoint(graph, BINARY16, point(inputs)).error_of("0") < off


class _Forgetful(Sweep):
    """A sweep that leaves out what an operation contributes to one operand."""

    operation, operand = Op.MUL, 1

    def _back(self, i, state):
        if i.op is not self.operation:
            return super()._back(i, state)
        before = state.mid.copy(), state.rad.copy()
        super()._back(i, state)
        ids = i.right if self.operand else i.left
        rows = np.unique(ids)
        state.mid[rows], state.rad[rows] = before[0][rows], before[1][rows]
        return None


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("operation", [Op.ADD, Op.SUB, Op.MUL, Op.DOT])
def test_a_forgotten_operand_is_caught(operation, operand, monkeypatch):
    """Some error exceeds its bound."""
    wrong = type("Forgetful", (_Forgetful,), {"operation": operation, "operand": operand})
    monkeypatch.setattr(adjoint_module, "Sweep", wrong)
    assert _violations()


def test_the_error_in_the_width_of_a_secant_matters(monkeypatch):
    """x x at an x that is far from its float: without E / 2 the secant is 2 x^, and the bound is below the error."""
    graph = trace(lambda x: x * x, {"x": 1.0}, order="serial")
    coarse = format_named("p=2,emin=-8,emax=8")
    region = point({"x": 1.25 - 2.0**-20})  # converted to 1, and 1 1 is exact
    error = (1.25 - 2.0**-20) ** 2 - 1.0
    assert adjoint(graph, coarse, region).elements["0"] >= error
    monkeypatch.setattr(adjoint_module, "secants", _without_error_in_widths)
    assert adjoint(graph, coarse, region).elements["0"] < error + coarse.u


def test_an_adversary_reaches_most_of_the_bound():
    """So that no factor can be missing unseen: x y z + w over a box in float16 and float32."""
    graph = trace(lambda x, y, z, w: (x * y) * z + w / x, dict.fromkeys("xyzw", 1.0), order="serial")
    ends = {name: (np.array(1.0 + k / 7), np.array(1.5 + k / 5)) for k, name in enumerate("xyzw")}
    region = Region({k: v[0] for k, v in ends.items()}, {k: v[1] for k, v in ends.items()})
    for format in (BINARY16, BINARY32):
        bound = adjoint(graph, format, region).norm_of("0")
        assert 0.6 * bound <= float(attained_in(graph, format, region, "0").value) <= bound


def test_fused_products_count_once_a_use():
    """(a b + c) - (a b - c): in any order the product may be rounded in one use and not in the other."""

    def kernel(a, b, c):
        p = a * b
        return (p + c) - (p - c)

    graph = trace(kernel, dict.fromkeys("abc", 1.0), order="any-order")
    region = point({"a": 1.0 + 2.0**-10, "b": 1.0 + 2.0**-10, "c": 64.0})
    found = adjoint(graph, BINARY16, region)
    [product] = [i for i in graph.instructions() if i.op is Op.MUL]
    [(_, mid, sizes)] = found.sweep.blocks(graph.outputs["0"].ids.ravel())
    assert abs(mid[product.start, 0]) < 1e-12  # the uses cancel, their roundings need not
    assert sizes[product.start, 0] >= 2.0
    serial = adjoint(with_order(graph, "serial"), BINARY16, region)
    assert serial.elements["0"] < found.elements["0"]


def test_a_norm_without_the_rest_is_caught():
    """`norm_together` against the largest norm over all vertices of the cube of roundings, adjoints at the worst ends."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        nodes, results = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        local, mid = rng.uniform(0, 1, nodes), rng.standard_normal((nodes, results))
        rad = rng.uniform(0, 0.3, (nodes, results))
        signs = np.array(np.meshgrid(*[[-1, 1]] * nodes)).reshape(nodes, -1).T
        worst = 0.0
        for _ in range(8):
            ends = mid + rad * np.where(rng.random(mid.shape) < 0.5, np.sign(mid), rng.uniform(-1, 1, mid.shape))
            worst = max(worst, float(np.linalg.norm((signs * local) @ ends, axis=1).max()))
        bound = together_module.norm_together(local, mid, np.abs(mid) + rad)
        plain = np.linalg.norm(local @ (np.abs(mid) + rad))
        assert worst <= bound <= plain * (1 + 2 * np.linalg.norm(local @ rad) / plain) * (1 + 1e-9)


def test_middles_that_are_not_finite_give_no_norm():
    """Infinite where such a row has an error of its own, and no part of the norm where it has none."""
    mid, sizes = np.array([[np.inf], [2.0]]), np.array([[np.inf], [2.0]])
    assert together_module.norm_together(np.array([1.0, 1.0]), mid, sizes) == np.inf
    assert together_module.norm_together(np.array([0.0, 1.0]), mid, sizes) >= 2.0


def test_nothing_is_looser_than_running():
    """A kernel whose secants are much wider than its errors: the running bound stands."""
    graph = trace(lambda x: np.exp(x) - np.exp(x), {"x": np.ones(3)}, order="serial")
    region = Region({"x": np.full(3, -4.0)}, {"x": np.full(3, 4.0)})
    for format in (BINARY16, BINARY32):
        assert (adjoint(graph, format, region).error_of("0") <= running(graph, format, region).error_of("0")).all()


def test_secants_are_data():
    """What a sweep needs is a `Secants`, whoever made it."""
    assert isinstance(adjoint(trace(lambda x: x, {"x": 1.0}), BINARY16, point({"x": 0.1})).sweep.secants, Secants)
