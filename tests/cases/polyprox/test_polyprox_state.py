"""What a state must satisfy, what a saved file may hold, and the sentence each refusal says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from certify.cases.polyprox import State, saved_from, states_from
from polyprox_states import random_state

from certify.errors import InputRejected
from certify.states import Saved, load, save

GOOD: dict[str, Any] = {
    "W": [[0, 0.5, 0], [0, 0, 0.25], [0, 0, 0]],
    "Sigma": [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]],
    "M": [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
    "alpha": 0.5,
    "rho": 1.0,
    "gamma": 0.25,
    "lam": 0.1,
    "b": 1,
    "p_max": 4,
}


def changed(name: str, i: int, j: int, value: float) -> Any:
    """Return the good array with one entry changed."""
    array = np.array(GOOD[name], dtype=float)
    array[i, j] = value
    return array


REFUSALS = [
    ({"W": [1.0, 2.0]}, "W has shape (2,); give a square (p, p) array"),
    ({"W": np.zeros((0, 0))}, "W has shape (0, 0); give a square (p, p) array"),
    ({"W": np.array([["a"]])}, "W has dtype <U1; save real numbers, such as float64"),
    ({"W": np.zeros((3, 3), dtype=complex)}, "W has dtype complex128; save real numbers, such as float64"),
    ({"W": changed("W", 1, 1, 2)}, "W[1, 1] is 2; set the diagonal of W to 0"),
    (
        {"W": changed("W", 0, 2, 0.5)},
        "W[0, 2] is 0.5 but M[0, 2] forbids that edge; multiply W by M, or allow it in M",
    ),
    ({"W": changed("W", 0, 1, np.nan)}, "W[0, 1] is nan; save finite values"),
    ({"Sigma": np.eye(2)}, "Sigma has shape (2, 2); give (3, 3), the shape of W"),
    ({"Sigma": changed("Sigma", 2, 0, 0.1)}, "Sigma[0, 2] differs from Sigma[2, 0]; save (Sigma + Sigma.T) / 2"),
    ({"Sigma": changed("Sigma", 2, 2, np.inf)}, "Sigma[2, 2] is inf; save finite values"),
    ({"M": np.zeros((3, 2))}, "M has shape (3, 2); give a square (p, p) array"),
    ({"M": changed("M", 0, 1, 2)}, "M[0, 1] is 2; use 1 for allowed edges and 0 for the others"),
    ({"M": changed("M", 2, 2, 1)}, "M[2, 2] is 1 but no variable may cause itself; set the diagonal of M to 0"),
    ({"alpha": np.nan}, "alpha is nan; give a finite number"),
    ({"alpha": [1.0]}, "alpha has shape (1,); give one number"),
    ({"rho": -1}, "rho is -1; give a value that is not negative"),
    ({"gamma": -0.5}, "gamma is -0.5; give a value that is not negative"),
    ({"gamma": 0}, "gamma is 0, so no update moves; save the step size that was used"),
    ({"lam": -0.1}, "lam is -0.1; give a value that is not negative"),
    ({"lam": np.inf}, "lam is inf; give a finite number"),
    ({"b": 2}, "b is 2; use 1 at the end of a penalty stage and 0 inside it"),
    ({"b": 0.5}, "b is 0.5; give an integer"),
    ({"p_max": 2}, "W has p = 3 variables but p_max is 2; use p_max of at least 3"),
    ({"p_max": 0}, "p_max is 0; use a capacity of at least p = 3"),
    ({"p_max": 3.5}, "p_max is 3.5; give an integer"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSALS, ids=[sentence[:24] for _, sentence in REFUSALS])
def test_a_bad_state_is_refused_with_one_sentence(change: dict[str, Any], sentence: str) -> None:
    """Each defect alone is refused with exit code 3, naming the culprit and the remedy."""
    State(**GOOD)
    with pytest.raises(InputRejected, match=f"^{re.escape(sentence)}$") as refusal:
        State(**{**GOOD, **change})
    assert refusal.value.exit_code == 3


@pytest.mark.parametrize(("p_max", "s"), [(3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4), (17, 5)])
def test_capacity_sets_the_power(p_max: int, s: int) -> None:
    """S = ceil(log2 p_max), N = 2^s."""
    state = State(**{**GOOD, "p_max": p_max})
    assert (state.p, state.P, state.s, state.N) == (3, p_max, s, 2**s)


def test_capacity_one_has_no_doubling() -> None:
    """p_max = 1 gives s = 0 and N = 1."""
    state = State(**{**GOOD, "W": [[0]], "Sigma": [[1]], "M": [[0]], "p_max": 1})
    assert (state.s, state.N) == (0, 1)


def test_a_state_cannot_be_changed_by_its_source() -> None:
    """The arrays are read-only copies in float64 and int8."""
    W = np.array(GOOD["W"], dtype=np.float32)
    state = State(**{**GOOD, "W": W})
    W[0, 1] = 9
    assert state.W[0, 1] == 0.5
    assert (state.W.dtype, state.Sigma.dtype, state.M.dtype) == (np.float64, np.float64, np.int8)
    with pytest.raises(ValueError, match="read-only"):
        state.W[0, 1] = 1


def same(a: State, b: State) -> bool:
    """Return whether two states are equal, bit for bit."""
    arrays = all(getattr(a, n).tobytes() == getattr(b, n).tobytes() for n in ("W", "Sigma", "M"))
    return arrays and all(getattr(a, n) == getattr(b, n) for n in ("alpha", "rho", "gamma", "lam", "b", "p_max"))


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_states_survive_a_file(tmp_path: Any, suffix: str) -> None:
    """One state and a trajectory come back bit for bit from either format."""
    rng = np.random.default_rng(1)
    first = random_state(rng, 5, 8, 1, density=0.5)
    kept = {n: getattr(first, n) for n in ("Sigma", "M", "lam", "b", "p_max")}
    trajectory = [State(W=first.W / k, alpha=k / 3, rho=0.1 * k, gamma=0.7 / k, **kept) for k in (1, 2, 3)]
    for states in (first, [first], trajectory):
        path = tmp_path / f"state.{suffix}"
        save(path, saved_from(states))
        back = states_from(load(path))
        want = [states] if isinstance(states, State) else states
        assert len(back) == len(want)
        assert all(same(a, b) for a, b in zip(back, want, strict=True))


def saved(tensors: dict[str, Any] | None = None, without: tuple[str, ...] = (), **metadata: str) -> Saved:
    """Return a good saved state with changes."""
    base = {name: np.array(GOOD[name], dtype=float) for name in ("W", "Sigma", "M")}
    text = {name: str(GOOD[name]) for name in ("alpha", "rho", "gamma", "lam", "b", "p_max")}
    arrays = {k: np.asarray(v) for k, v in {**base, **(tensors or {})}.items() if k not in without}
    return Saved(tensors=arrays, metadata={k: v for k, v in {**text, **metadata}.items() if k not in without})


def test_controls_may_be_decimal_hexadecimal_or_arrays() -> None:
    """The same state comes from decimal text, hexadecimal text and 0-d arrays."""
    decimal = states_from(saved())[0]
    hexadecimal = states_from(saved(gamma="0x1p-2", lam=(0.1).hex()))[0]
    controls = {name: np.asarray(GOOD[name]) for name in ("alpha", "rho", "gamma", "lam", "b", "p_max")}
    arrays = states_from(Saved(tensors={**saved().tensors, **controls}, metadata={}))[0]
    assert same(decimal, hexadecimal)
    assert same(decimal, arrays)


def test_data_become_the_centred_covariance() -> None:
    """X of (0,0,0) and (2,4,0) has Sigma = [[1,2,0],[2,4,0],[0,0,0]], whatever is added to a column."""
    X = np.array([[0.0, 0, 0], [2, 4, 0]]) + np.array([7, -3, 1])
    state = states_from(saved({"X": X}, without=("Sigma",)))[0]
    assert state.Sigma.tolist() == [[1, 2, 0], [2, 4, 0], [0, 0, 0]]


FILE_REFUSALS = [
    (saved(without=("W",)), "W is missing; save the weights as W (p, p)"),
    (saved(without=("M",)), "M is missing; save the allowed-edge mask as M (p, p) of 0 and 1"),
    (
        saved(without=("Sigma",)),
        "Sigma is missing; save the covariance as Sigma (p, p) or the data as X (m, p)",
    ),
    (
        saved({"X": np.zeros((2, 3))}),
        "Sigma and X are both given; save the covariance Sigma or the data X, not both",
    ),
    (saved(without=("rho",)), "rho is missing; save it as a metadata string or a 0-d array"),
    (saved({"rho": 1.0}), "rho is both a tensor and metadata; save it once"),
    (
        saved({"sigma": np.eye(3)}),
        "the tensor 'sigma' is unknown; save only W, Sigma, X, M, alpha, rho, gamma, lam, b, p_max, or name your kernel",
    ),
    (saved(gamma="fast"), "the metadata gamma is 'fast'; write it as a decimal or hexadecimal number"),
    (saved(p_max="4.5"), "the metadata p_max is '4.5'; write it as an integer"),
    (saved(b="1_0"), "the metadata b is '1_0'; write it as an integer"),
    (saved(rho="1_0.5"), "the metadata rho is '1_0.5'; write it as a decimal or hexadecimal number"),
    (saved(lam="\u0661"), "the metadata lam is '\u0661'; write it as a decimal or hexadecimal number"),
    (saved(alpha="nan"), "alpha is nan; give a finite number"),
    (
        saved({"W": np.zeros(3)}),
        "W has shape (3,); save W as (p, p), or as (T, p, p) for a trajectory of T states",
    ),
    (saved({"W": np.zeros((0, 3, 3))}), "W holds a trajectory of no states; save at least one state"),
    (saved({"X": np.zeros(3)}, without=("Sigma",)), "X has shape (3,); save the data as (m, p), one row a sample"),
    (
        saved({"X": np.full((2, 3), np.inf)}, without=("Sigma",)),
        "X holds a value that is not finite; drop or impute those samples",
    ),
    (
        Saved({**saved().tensors, "alpha": np.zeros(2)}, saved(without=("alpha",)).metadata),
        "alpha has shape (2,); save it with shape ()",
    ),
    (
        Saved({**saved().tensors, "W": np.zeros((3, 3, 3)), "alpha": np.zeros(2)}, saved(without=("alpha",)).metadata),
        "alpha has shape (2,); save it with shape () or (3,)",
    ),
]


@pytest.mark.parametrize(("file", "sentence"), FILE_REFUSALS, ids=[sentence[:32] for _, sentence in FILE_REFUSALS])
def test_a_bad_file_is_refused_with_one_sentence(file: Saved, sentence: str) -> None:
    """Each defect of a file is refused with exit code 3, naming the tensor and the remedy."""
    with pytest.raises(InputRejected, match=f"^{re.escape(sentence)}$") as refusal:
        states_from(file)
    assert refusal.value.exit_code == 3


def test_a_trajectory_must_share_what_a_file_holds_once() -> None:
    """States that differ in lam, or no states at all, cannot be one file."""
    a = State(**GOOD)
    b = State(**{**GOOD, "lam": 0.2})
    with pytest.raises(InputRejected, match="the states differ in lam; save them in separate files"):
        saved_from([a, b])
    with pytest.raises(InputRejected, match="the trajectory holds no states"):
        saved_from([])
