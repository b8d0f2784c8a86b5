"""One state of the Poly-prox iteration: the tensors, the controls, and what a saved file must satisfy.

Source: polyprox.md section 1 (the quantities), report.md "Saved states" (the files and what is refused).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certify.errors import InputRejected

if TYPE_CHECKING:
    from certify.states import Saved

TENSORS = ("W", "Sigma", "X", "M")
CONTROLS = ("alpha", "rho", "gamma", "lam", "b", "p_max")
PER_STEP = ("alpha", "rho", "gamma")


@dataclass(frozen=True, eq=False)
class State:
    """A checked state; whoever holds one may rely on every line below.

    Attributes
    ----------
    W : ``(p, p)`` float64, finite, zero wherever ``M`` is; ``W[i, j]`` is the weight of the edge ``i -> j``.
    Sigma : ``(p, p)`` float64, finite, exactly symmetric.
    M : ``(p, p)`` int8 of 0 and 1, zero on the diagonal.
    alpha : finite; the multiplier.
    rho, gamma, lam : finite, ``rho >= 0``, ``gamma > 0``, ``lam >= 0``; penalty, step size, Lasso weight.
    b : 1 at the end of a penalty stage (alpha is then updated), 0 inside it.
    p_max : the capacity P, at least p.

    The arrays are read-only copies. Construction raises `InputRejected` naming the culprit and the remedy.
    """

    W: NDArray[np.float64]
    Sigma: NDArray[np.float64]
    M: NDArray[np.int8]
    alpha: float
    rho: float
    gamma: float
    lam: float
    b: int
    p_max: int

    def __post_init__(self) -> None:
        W = _square("W", self.W)
        p = W.shape[0]
        Sigma = _square("Sigma", self.Sigma, p)
        M = _square("M", self.M, p)
        _check_mask(M)
        _check_edges(W, M)
        _check_symmetry(Sigma)
        checked: dict[str, Any] = {
            "W": W,
            "Sigma": Sigma,
            "M": M.astype(np.int8),
            "alpha": _control("alpha", self.alpha),
            "rho": _control("rho", self.rho, at_least_0=True),
            "gamma": _control("gamma", self.gamma, at_least_0=True),
            "lam": _control("lam", self.lam, at_least_0=True),
            "b": _whole("b", self.b),
            "p_max": _whole("p_max", self.p_max),
        }
        if checked["gamma"] == 0:
            raise InputRejected("gamma is 0, so no update moves", "save the step size that was used")
        if checked["b"] not in (0, 1):
            raise InputRejected(f"b is {checked['b']}", "use 1 at the end of a penalty stage and 0 inside it")
        if checked["p_max"] < 1:
            raise InputRejected(f"p_max is {checked['p_max']}", f"use a capacity of at least p = {p}")
        if p > checked["p_max"]:
            raise InputRejected(
                f"W has p = {p} variables but p_max is {checked['p_max']}", f"use p_max of at least {p}"
            )
        for name, value in checked.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def p(self) -> int:
        """The number of variables."""
        return int(self.W.shape[0])

    @property
    def P(self) -> int:
        """The capacity, ``p_max``: columns of a wide register of the transformer."""
        return self.p_max

    @property
    def s(self) -> int:
        """The number of doublings, ``ceil(log2(p_max))``."""
        return (self.p_max - 1).bit_length()

    @property
    def N(self) -> int:
        """The power in ``tr(Y**N)``, ``2**s``."""
        return 1 << self.s

    def inputs(self) -> dict[str, Any]:
        """Return the arguments of `certify.cases.polyprox.block`, by name."""
        names = ("W", "Sigma", "M", "alpha", "rho", "gamma", "lam", "b", "N")
        return {name: getattr(self, name) for name in names}


def states_from(saved: Saved) -> list[State]:
    """Return the states of a saved file, one or a whole trajectory, in order.

    Tensors: ``W (p, p)`` or ``(T, p, p)``, ``Sigma (p, p)`` or ``X (m, p)`` (then ``Sigma`` is the covariance of its
    columns, rounded once), ``M (p, p)``. Controls: metadata strings (decimal or hexadecimal) or 0-d arrays; ``alpha``,
    ``rho``, ``gamma`` of a trajectory may be ``(T,)``.

    Raises
    ------
    InputRejected : something is missing, unknown, given twice, or not a state.
    """
    tensors = saved.tensors
    _check_names(tensors, saved.metadata)
    W = _numeric("W", tensors["W"])
    if W.ndim not in (2, 3):
        raise InputRejected(f"W has shape {W.shape}", "save W as (p, p), or as (T, p, p) for a trajectory of T states")
    if W.ndim == 3 and W.shape[0] == 0:
        raise InputRejected("W holds a trajectory of no states", "save at least one state")
    steps = W[np.newaxis] if W.ndim == 2 else W
    Sigma = tensors["Sigma"] if "Sigma" in tensors else _covariance(tensors["X"])
    controls = {name: _given(name, saved, len(steps)) for name in CONTROLS}
    return [
        State(W=steps[t], Sigma=Sigma, M=tensors["M"], **{name: c[t] for name, c in controls.items()})
        for t in range(len(steps))
    ]


def saved_from(states: State | Sequence[State]) -> Saved:
    """Return the file contents of one state, or of a trajectory sharing ``Sigma, M, lam, b, p_max``.

    Raises
    ------
    InputRejected : there is no state, or the states of the trajectory differ in what a file holds once.
    """
    from certify.states import Saved

    tensors: dict[str, NDArray[Any]]
    per_step: tuple[str, ...] = ()
    if isinstance(states, State):
        first, tensors = states, {"W": states.W}
    else:
        if not states:
            raise InputRejected("the trajectory holds no states", "save at least one state")
        first, per_step = states[0], PER_STEP
        for name in ("Sigma", "M", "lam", "b", "p_max"):
            if not all(np.array_equal(getattr(x, name), getattr(first, name)) for x in states):
                raise InputRejected(f"the states differ in {name}", "save them in separate files")
        tensors = {"W": np.stack([x.W for x in states])}
        tensors |= {name: np.array([getattr(x, name) for x in states]) for name in per_step}
    tensors |= {"Sigma": first.Sigma, "M": first.M}
    metadata = {name: _exact_text(getattr(first, name)) for name in CONTROLS if name not in per_step}
    return Saved(tensors=tensors, metadata=metadata)


def _check_names(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    known = (*TENSORS, *CONTROLS)
    for name in tensors:
        if name not in known:
            raise InputRejected(f"the tensor {name!r} is unknown", f"save only {', '.join(known)}, or name your kernel")
        if name in metadata:
            raise InputRejected(f"{name} is both a tensor and metadata", "save it once")
    if "Sigma" in tensors and "X" in tensors:
        raise InputRejected("Sigma and X are both given", "save the covariance Sigma or the data X, not both")
    if "Sigma" not in tensors and "X" not in tensors:
        raise InputRejected("Sigma is missing", "save the covariance as Sigma (p, p) or the data as X (m, p)")
    remedies = {"W": "save the weights as W (p, p)", "M": "save the allowed-edge mask as M (p, p) of 0 and 1"}
    for name, remedy in remedies.items():
        if name not in tensors:
            raise InputRejected(f"{name} is missing", remedy)
    for name in CONTROLS:
        if name not in tensors and name not in metadata:
            raise InputRejected(f"{name} is missing", "save it as a metadata string or a 0-d array")


def _given(name: str, saved: Saved, T: int) -> list[Any]:
    """Return the T values of one control, from an array of shape () or (T,) or from a metadata string."""
    if name in saved.metadata:
        return [_parsed(name, saved.metadata[name])] * T
    array = _numeric(name, saved.tensors[name])
    if array.ndim == 0:
        return [array.item()] * T
    if name in PER_STEP and array.shape == (T,) and saved.tensors["W"].ndim == 3:
        return list(array.tolist())
    wanted = f"() or ({T},)" if name in PER_STEP and saved.tensors["W"].ndim == 3 else "()"
    raise InputRejected(f"{name} has shape {array.shape}", f"save it with shape {wanted}")


def _parsed(name: str, text: str) -> float | int:
    whole = name in ("b", "p_max")
    try:
        if text.isascii() and "_" not in text:  # Python reads 1_0 as 10
            return int(text) if whole else float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        pass
    kind = "an integer" if whole else "a decimal or hexadecimal number"
    raise InputRejected(f"the metadata {name} is {text[:40]!r}", f"write it as {kind}")


def _exact_text(value: float | int) -> str:
    return str(value) if isinstance(value, int) else value.hex()


def _covariance(X: ArrayLike) -> NDArray[np.float64]:
    """The covariance of the columns, over m: exact, and each entry rounded once, so that no order of sums enters."""
    from flint import fmpz_mat

    data = _numeric("X", X).astype(np.float64)
    if data.ndim != 2 or 0 in data.shape:
        raise InputRejected(f"X has shape {data.shape}", "save the data as (m, p), one row a sample")
    if not np.all(np.isfinite(data)):
        raise InputRejected("X holds a value that is not finite", "drop or impute those samples")
    m, p = data.shape
    ratios = [x.as_integer_ratio() for x in data.ravel().tolist()]
    scale = max(under for _, under in ratios)  # powers of two
    whole = fmpz_mat(m, p, [over * (scale // under) for over, under in ratios])
    sums, products = fmpz_mat(1, m, [1] * m) * whole, whole.transpose() * whole
    moments = [[int(m * products[i, j] - sums[0, i] * sums[0, j]) for j in range(p)] for i in range(p)]
    try:  # a quotient of integers is rounded to nearest
        return np.array([[moment / (m * scale) ** 2 for moment in row] for row in moments])
    except OverflowError:
        raise InputRejected("the covariance of X overflows", "divide the data by a power of two") from None


def _numeric(name: str, value: ArrayLike) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputRejected(f"{name} has dtype {array.dtype}", "save real numbers, such as float64")
    return array


def _square(name: str, value: ArrayLike, p: int | None = None) -> NDArray[np.float64]:
    array = _numeric(name, value)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InputRejected(f"{name} has shape {array.shape}", "give a square (p, p) array")
    if p is not None and array.shape[0] != p:
        raise InputRejected(f"{name} has shape {array.shape}", f"give ({p}, {p}), the shape of W")
    if array.dtype.itemsize > 8:
        raise InputRejected(f"{name} has dtype {array.dtype}", "save it as float64")
    result: NDArray[np.float64] = np.array(array, dtype=np.float64)
    if not np.all(np.isfinite(result)):
        i, j = np.argwhere(~np.isfinite(result))[0]
        raise InputRejected(f"{name}[{i}, {j}] is {result[i, j]}", "save finite values")
    return result


def _check_mask(M: NDArray[np.float64]) -> None:
    if not np.all((M == 0) | (M == 1)):
        i, j = np.argwhere((M != 0) & (M != 1))[0]
        raise InputRejected(f"M[{i}, {j}] is {M[i, j]:g}", "use 1 for allowed edges and 0 for the others")
    if np.any(np.diagonal(M)):
        i = np.flatnonzero(np.diagonal(M))[0]
        raise InputRejected(f"M[{i}, {i}] is 1 but no variable may cause itself", "set the diagonal of M to 0")


def _check_edges(W: NDArray[np.float64], M: NDArray[np.float64]) -> None:
    if np.any(np.diagonal(W)):
        i = np.flatnonzero(np.diagonal(W))[0]
        raise InputRejected(f"W[{i}, {i}] is {W[i, i]:g}", "set the diagonal of W to 0")
    if np.any(W[M == 0]):
        i, j = np.argwhere((M == 0) & (W != 0))[0]
        raise InputRejected(
            f"W[{i}, {j}] is {W[i, j]:g} but M[{i}, {j}] forbids that edge", "multiply W by M, or allow it in M"
        )


def _check_symmetry(Sigma: NDArray[np.float64]) -> None:
    if not np.array_equal(Sigma, Sigma.T):
        i, j = np.argwhere(Sigma != Sigma.T)[0]
        raise InputRejected(f"Sigma[{i}, {j}] differs from Sigma[{j}, {i}]", "save (Sigma + Sigma.T) / 2")


def _control(name: str, value: Any, *, at_least_0: bool = False) -> float:
    array = _numeric(name, value)
    if array.ndim != 0:
        raise InputRejected(f"{name} has shape {array.shape}", "give one number")
    number = float(array)
    if not np.isfinite(number):
        raise InputRejected(f"{name} is {number}", "give a finite number")
    if at_least_0 and number < 0:
        raise InputRejected(f"{name} is {number:g}", "give a value that is not negative")
    return number


def _whole(name: str, value: Any) -> int:
    number = _control(name, value)
    try:
        whole = operator.index(int(number))
    except (TypeError, ValueError):
        whole = -1
    if whole != number:
        raise InputRejected(f"{name} is {number:g}", "give an integer")
    return whole
