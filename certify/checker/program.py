"""The program of a claim as a flat list of scalar operations over numbered nodes: the checker's own expansion.

Exact operations make no node: 0 x, x + 0, 1 x, x - x. Every finite number of a binary format passes them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from certify.checker.document import Beyond

CONTROLS = ("alpha", "rho", "gamma", "lam")
ZERO = -1  # the id of an element that is no node: a known number, 0 unless `Program.known` says otherwise
MOST_OPERATIONS = 100_000_000


class Step(NamedTuple):
    """Lanes of one operation; each lane makes one node. What a lane is:

    const (number,); sum ids, added left to right; dot (ids, ids), products added left to right; sub (a, b); neg, relu
    (a,); scale (a,), by 2**exponent; overwrite (x, y, d) computes x + d where d is the node y - x: exactly it is y.
    """

    op: str
    place: tuple[str, str]
    lanes: Sequence[Any]
    exponent: int = 0


@dataclass
class Program:
    """Inputs are the first nodes: `inputs[name]` lists the flat positions that have one; the others are zero."""

    inputs: dict[str, list[int]]
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    known: dict[str, list[float]] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: int = 0
    work: int = 0

    def __post_init__(self) -> None:
        self.nodes = sum(map(len, self.inputs.values()))

    @property
    def operations(self) -> int:
        """How many scalar operations: a sum of n terms is n - 1, a dot of n is 2 n - 1."""
        size: dict[str, Callable[[Any], int]] = {"sum": lambda x: len(x) - 1, "dot": lambda x: 2 * len(x[0]) - 1}
        return sum(
            sum(max(size[s.op](x), 0) for x in s.lanes) if s.op in size else len(s.lanes)
            for s in self.steps
            if s.op != "const"
        )

    def emit(self, op: str, place: tuple[str, str], lanes: Sequence[Any], exponent: int = 0) -> range:
        """Append a step; the ids of its lanes."""
        self.steps.append(Step(op, place, lanes, exponent))
        self.nodes += len(lanes)
        return range(self.nodes - len(lanes), self.nodes)

    def place(self, node: int) -> tuple[str, str]:
        """The layer and register that compute a node; an empty layer and the name for an input."""
        for name, support in self.inputs.items():
            if node < len(support):
                return "", name
            node -= len(support)
        for step in self.steps:
            if node < len(step.lanes):
                return step.place
            node -= len(step.lanes)
        raise IndexError(node)

    def values(self, output: str, values: Sequence[float]) -> list[float]:
        """An output's elements, from the values of all nodes."""
        return [k if i < 0 else values[i] for i, k in zip(self.outputs[output], self.known[output], strict=True)]


def inputs_of(program: Program, given: Any) -> list[float]:
    """The values of the input nodes: attributes of a state, or entries of a mapping, as numbers or (nested) lists."""
    read = given.__getitem__ if isinstance(given, Mapping) else lambda name: getattr(given, name)
    flat: list[float] = []
    for name, support in program.inputs.items():
        value = read(name)
        if isinstance(value, list) and value and isinstance(value[0], list):
            value = [x for row in value for x in row]
        flat += [value[k] for k in support] if isinstance(value, list) else [value]
    return flat


class _Block:
    """Entrywise and matrix operations on lists of ids, in row-major order; `at` names the place that computes them."""

    def __init__(self, program: Program, p: int) -> None:
        self.program, self.p, self.place = program, p, ("", "")

    def at(self, layer: str, register: str) -> _Block:
        self.place = (layer, register)
        return self

    def unary(self, op: str, a: list[int], exponent: int = 0) -> list[int]:
        lanes = [(x,) for x in a if x != ZERO]
        made = iter(self.program.emit(op, self.place, lanes, exponent))
        return [ZERO if x == ZERO else next(made) for x in a]

    def scale(self, a: list[int], exponent: int) -> list[int]:
        return self.unary("scale", a, exponent) if exponent else a

    def binary(self, op: str, lane: Callable[[int, int], Any], a: list[int], b: list[int]) -> list[int]:
        """The operation where both ids are nodes; elsewhere the element that is one."""
        lanes = [lane(x, y) for x, y in zip(a, b, strict=True) if x != ZERO and y != ZERO]
        made = iter(self.program.emit(op, self.place, lanes))
        return [next(made) if x != ZERO and y != ZERO else max(x, y) for x, y in zip(a, b, strict=True)]

    def add(self, a: list[int], b: list[int]) -> list[int]:
        return self.binary("sum", lambda x, y: (x, y), a, b)

    def sub(self, a: list[int], b: list[int]) -> list[int]:
        """0 - y is a negation."""
        negated = self.unary("neg", [y if x == ZERO else ZERO for x, y in zip(a, b, strict=True)])
        differences = self.binary(
            "sub", lambda x, y: (x, y), a, [ZERO if x == ZERO else y for x, y in zip(a, b, strict=True)]
        )
        return [max(x, y) for x, y in zip(negated, differences, strict=True)]

    def mul(self, a: list[int], b: list[int]) -> list[int]:
        both = [x != ZERO and y != ZERO for x, y in zip(a, b, strict=True)]
        a, b = ([x if ok else ZERO for x, ok in zip(c, both, strict=True)] for c in (a, b))
        return self.binary("dot", lambda x, y: ((x,), (y,)), a, b)

    def total(self, a: list[int]) -> list[int]:
        terms = [x for x in a if x != ZERO]
        return terms or [ZERO] if len(terms) < 2 else list(self.program.emit("sum", self.place, [terms]))

    def matmul(self, a: list[int], b: list[int]) -> list[int]:
        p = self.p
        rows, columns = [a[i * p : i * p + p] for i in range(p)], [b[j::p] for j in range(p)]
        lanes = [live(row, column) for row in rows for column in columns]
        made = iter(self.program.emit("dot", self.place, [lane for lane in lanes if lane[0]]))
        return [next(made) if lane[0] else ZERO for lane in lanes]

    def overwrite(self, x: list[int], y: list[int]) -> list[int]:
        """x + (y - x), how a residual stream replaces x by y; x + (0 - x) is 0, 0 + (y - 0) is y."""
        d = self.sub(y, x)
        lanes = [(i, j, k) for i, j, k in zip(x, y, d, strict=True) if i != ZERO and j != ZERO]
        made = iter(self.program.emit("overwrite", self.place, lanes))
        return [next(made) if i != ZERO and j != ZERO else j for i, j in zip(x, y, strict=True)]

    def doubled(self, S: list[int], Q: list[int], layer: str, s: int) -> tuple[list[int], list[int]]:
        """S and Q after s doublings, S + (S S + S) and Q + (Q S + S)."""
        for j in range(s):
            SS = self.at(f"{layer}.{j + 1}", "SS").matmul(S, S)
            QS = self.at(self.place[0], "QS").matmul(Q, S)
            Q = self.at(self.place[0], "Q").add(Q, self.add(QS, S))
            S = self.at(self.place[0], "S").add(S, self.add(SS, S))
        return S, Q


def live(row: list[int], column: list[int]) -> tuple[list[int], list[int]]:
    """The pairs without a zero, as two lists."""
    if ZERO not in row and ZERO not in column:
        return row, column
    pairs = [(x, y) for x, y in zip(row, column, strict=True) if x != ZERO and y != ZERO]
    return [x for x, _ in pairs], [y for _, y in pairs]


def polyprox(M: list[list[int]], b: int, N: int) -> Program:
    """One update of the Poly-prox block (arXiv 2610.10395, App. B) for W with the mask M, as its layers compute it."""
    p, s = len(M), N.bit_length() - 1
    if 4 * s * p**3 > MOST_OPERATIONS:
        raise Beyond(f"a block of p = {p} and N = {N} is larger than a checker expands")
    mask = [bool(m) for row in M for m in row]
    n = p * p
    program = Program({"W": [k for k in range(n) if mask[k]], "Sigma": list(range(n))} | {c: [0] for c in CONTROLS})
    count = sum(mask)
    ids = iter(range(count))
    W = [next(ids) if m else ZERO for m in mask]
    Sigma = list(range(count, count + n))
    alpha, rho, gamma, lam = ([count + n + k] for k in range(4))
    at = (do := _Block(program, p)).at

    B = at("1", "B").mul(W, W)
    S = at("1", "S").scale(B, -s)
    tau = at("1", "tau").mul(gamma, lam) * n
    a_gamma = at("1", "a_gamma").mul(gamma, alpha)
    r_gamma = at("1", "r_gamma").mul(gamma, rho)
    r_b = rho if b else [ZERO]
    S, Q = do.doubled(S, [ZERO] * n, "2", s)
    d = S[:: p + 1]
    h = at("4", "h").total(d)
    ST = [Q[j * p + i] for i in range(p) for j in range(p)]
    SW = at("4", "SW").matmul(Sigma, W)
    X = [x if m else ZERO for x, m in zip(at("4", "X").sub(SW, Sigma), mask, strict=True)]
    HS = at("4", "HS").mul(W, ST)
    varsigma = at("4", "varsigma").add(do.mul(r_gamma, h), a_gamma) * n
    V = at("5", "V").sub(W, do.add(do.mul(gamma * n, X), do.scale(do.mul(varsigma, HS), 1)))
    positive = at("6", "Wn").unary("relu", do.sub(V, tau))
    Wn = do.sub(positive, do.unary("relu", do.sub(do.unary("neg", V), tau)))
    at("7", "B").overwrite(B, do.mul(Wn, Wn))
    S = at("7", "S").overwrite(S, do.scale(do.mul(Wn, Wn), -s))
    S, Q = do.doubled(S, [ZERO] * n, "8", s)
    d = at("9", "d").overwrite(d, S[:: p + 1])
    h_plus = at("10", "h_plus").total(d)
    alpha = at("10", "alpha").add(alpha, do.mul(r_b, h_plus))
    program.outputs = {"W": at("10", "W").overwrite(W, Wn), "alpha": alpha}
    program.known = {"W": [0.0] * n, "alpha": [0.0]}
    program.shapes = {"W": (p, p)}
    return program


def exact(program: Program, values: Sequence[float], output: str) -> list[Fraction]:
    """What the program computes in exact arithmetic from these dyadic inputs: only what the output depends on."""
    needed, stop = set(program.outputs[output]), program.nodes
    for step in reversed(program.steps):
        stop -= len(step.lanes)
        for k, lane in enumerate(step.lanes):
            if stop + k in needed and step.op != "const":
                needed.update(x for part in lane for x in part) if step.op == "dot" else needed.update(lane)
    v: list[Dyadic] = [_dyadic(x) for x in values]
    for step in program.steps:
        compute = _EXACT[step.op]
        v += [compute(v, lane, step.exponent) if len(v) + k in needed else (0, 0) for k, lane in enumerate(step.lanes)]
    ids = zip(program.outputs[output], program.known[output], strict=True)
    return [Fraction(k) if i < 0 else v[i][0] * Fraction(2) ** v[i][1] for i, k in ids]


Dyadic = tuple[int, int]  # (n, e) is n 2**e


def _dyadic(x: float) -> Dyadic:
    n, d = x.as_integer_ratio()
    return n, 1 - d.bit_length()


def _plus(terms: list[Dyadic]) -> Dyadic:
    least = min((e for _, e in terms), default=0)
    return sum(n << (e - least) for n, e in terms), least


_EXACT: dict[str, Callable[[list[Dyadic], Any, int], Dyadic]] = {
    "const": lambda v, lane, _: _dyadic(lane[0]),
    "sum": lambda v, lane, _: _plus([v[a] for a in lane]),
    "dot": lambda v, lane, _: _plus([(v[a][0] * v[b][0], v[a][1] + v[b][1]) for a, b in zip(*lane, strict=True)]),
    "sub": lambda v, lane, _: _plus([v[lane[0]], (-v[lane[1]][0], v[lane[1]][1])]),
    "neg": lambda v, lane, _: (-v[lane[0]][0], v[lane[0]][1]),
    "relu": lambda v, lane, _: (max(v[lane[0]][0], 0), v[lane[0]][1]),
    "scale": lambda v, lane, exponent: (v[lane[0]][0], v[lane[0]][1] + exponent),
    "overwrite": lambda v, lane, _: v[lane[1]],
}
