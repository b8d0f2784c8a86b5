"""The program of a claim as a list of scalar operations: the block in the checker's own expansion, or a user's kernel.

Exact operations make no node: 0 x, x + 0, 1 x, x - x. Every finite number of a binary format passes them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from certify.checker.document import Beyond, Rejected, parse_json, shown
from certify.checker.formats import SERIAL, Order, order_named
from certify.checker.saved import read

ZERO = -1  # the id of an element that is no node: a known number, 0 unless `Program.known` says otherwise
MOST_OPERATIONS = 100_000_000
Ids = list[int]


@dataclass
class Program:
    """Numbered nodes: first the inputs, `inputs[name]` listing the flat positions that are no zeros; then `code`.

    An operation is (name, operands, (layer, register), extra, its own format or ""), its operands nodes before it: sum
    (ids) and dot (ids, ids) in the order of the program, if it keeps places with ZERO for a known zero; add, sub, mul (a, b);
    scale (a), by 2**extra; overwrite (x, y, d), x + d where d is the node y - x, exactly y; select (p, q, x, y): x if p <= q,
    or if p < q with extra 1, else y; cast (a): rounded to the operation's format; and const (number). The others are neg, relu,
    abs, sqrt, exp, log, tanh, sigmoid (a) and div, max (a, b).
    """

    inputs: dict[str, Ids]
    order: Order = SERIAL
    code: list[tuple[str, Any, tuple[str, str], int, str]] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    outputs: dict[str, Ids] = field(default_factory=dict)
    known: dict[str, list[float]] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = sum(map(len, self.inputs.values()))

    def emit(self, op: str, operands: Any, place: tuple[str, str] = ("", ""), extra: int = 0, own: str = "") -> int:
        """Append an operation; its node."""
        self.code.append((op, operands, place, extra, own))
        self.nodes += 1
        return self.nodes - 1

    @property
    def operations(self) -> int:
        """How many scalar operations: a sum of n terms is n - 1, a dot of n is 2 n - 1."""
        live = [
            (op, sum(x >= 0 for x in (o[0] if op == "dot" else o)) if op in ("dot", "sum") else 0)
            for op, o, *_ in self.code
        ]
        return sum(2 * n - 1 if op == "dot" else n - 1 if op == "sum" else op != "const" for op, n in live)

    @cached_property
    def nonnegative(self) -> list[bool]:
        """Which nodes are not negative, computed or exact, whatever the inputs: by induction; fl is monotone, fl(0) = 0."""
        n: list[bool] = [False] * (self.nodes - len(self.code))
        for op, ids, *_ in self.code:
            if op in ("dot", "mul", "div"):
                pairs = zip(*ids, strict=True) if op == "dot" else [ids]
                good = all(min(a, b) < 0 or (n[a] and n[b]) or (a == b and op != "div") for a, b in pairs)
            elif op == "max":
                good = n[ids[0]] or n[ids[1]]
            elif op in ("sum", "add", "scale", "select", "cast"):
                good = all(i < 0 or n[i] for i in (ids[2:] if op == "select" else ids))
            else:
                good = op in ("relu", "sqrt", "exp", "abs", "sigmoid") or (op == "const" and ids[0] >= 0)
            n.append(good)
        return n

    @cached_property
    def constants(self) -> list[tuple[str, float]]:
        """The known numbers of outputs but zeros, each with its output: they are converted after all operations."""
        return [
            (name, known)
            for name, ids in self.outputs.items()
            for node, known in zip(ids, self.known[name], strict=True)
            if node < 0 and known != 0
        ]

    def place(self, node: int) -> tuple[str, str]:
        """The layer and register that compute a node; an empty layer and the name for an input, or an output's known number.

        The known numbers count as nodes after all others, in the order of `constants`.
        """
        places = [("", name) for name, support in self.inputs.items() for _ in support]
        if node >= self.nodes:
            return "", self.constants[node - self.nodes][0]
        return places[node] if node < len(places) else self.code[node - len(places)][2]

    def values(self, output: str, values: Sequence[float]) -> list[float]:
        """An output's elements, from the values of all nodes."""
        return [k if i < 0 else values[i] for i, k in zip(self.outputs[output], self.known[output], strict=True)]


def inputs_of(program: Program, given: Any) -> list[float]:
    """The values of the input nodes: attributes of a state, or entries of a mapping, as numbers or (nested) lists."""

    def flat(x: Any) -> list[float]:
        return [z for y in x for z in flat(y)] if isinstance(x, list) else [x]

    values = given if isinstance(given, Mapping) else vars(given)
    arrays = {name: flat(values[name]) for name in program.inputs}
    return [arrays[name][k] for name, support in program.inputs.items() for k in support]


class _Block:
    """Operations on row-major lists of ids, in which zeros make no node; `at` names the place that computes them."""

    def __init__(self, program: Program, p: int) -> None:
        self.program, self.p, self.place = program, p, ("", "")

    def at(self, layer: str, register: str) -> _Block:
        self.place = (layer, register)
        return self

    def node(self, op: str, *operands: Any, exponent: int = 0) -> int:
        return self.program.emit(op, operands, self.place, exponent)

    def unary(self, op: str, a: Ids, exponent: int = 0) -> Ids:
        return [self.node(op, x, exponent=exponent) if x >= 0 else ZERO for x in a]

    def add(self, a: Ids, b: Ids) -> Ids:
        return [self.node("add", x, y) if min(x, y) >= 0 else max(x, y) for x, y in zip(a, b, strict=True)]

    def sub(self, a: Ids, b: Ids) -> Ids:
        pairs = zip(a, b, strict=True)
        return [x if y < 0 else self.node("sub", x, y) if x >= 0 else self.node("neg", y) for x, y in pairs]

    def dot(self, row: Ids, column: Ids) -> int:
        if ZERO in row or ZERO in column:
            pairs = [pair if min(pair) >= 0 else (ZERO, ZERO) for pair in zip(row, column, strict=True)]
            live = pairs if self.program.order.keeps_places else [pair for pair in pairs if pair[0] >= 0]
            row, column = [x for x, _ in live], [y for _, y in live]
        return self.node("dot", row, column) if max(row, default=ZERO) >= 0 else ZERO

    def mul(self, a: Ids, b: Ids) -> Ids:
        return [self.node("mul", x, y) if min(x, y) >= 0 else ZERO for x, y in zip(a, b, strict=True)]

    def matmul(self, a: Ids, b: Ids) -> Ids:
        rows, columns = [a[i : i + self.p] for i in range(0, len(a), self.p)], [b[j :: self.p] for j in range(self.p)]
        return [self.dot(row, column) for row in rows for column in columns]

    def total(self, a: Ids) -> Ids:
        terms = [x for x in a if x >= 0]
        kept = a if self.program.order.keeps_places else terms
        return [self.node("sum", *kept)] if len(terms) > 1 else terms or [ZERO]

    def overwrite(self, x: Ids, y: Ids) -> Ids:
        """x + (y - x), how a residual stream replaces x by y; x + (0 - x) is 0, 0 + (y - 0) is y."""
        triples = zip(x, y, self.sub(y, x), strict=True)
        return [self.node("overwrite", i, j, d) if min(i, j) >= 0 else j for i, j, d in triples]

    def doubled(self, S: Ids, layer: str, s: int) -> tuple[Ids, Ids]:
        """S and Q after s doublings of (S, 0), to S + (S S + S) and Q + (Q S + S)."""
        Q = [ZERO] * len(S)
        for j in range(s):
            SS = self.at(f"{layer}.{j + 1}", "SS").matmul(S, S)
            QS = self.at(f"{layer}.{j + 1}", "QS").matmul(Q, S)
            Q = self.at(f"{layer}.{j + 1}", "Q").add(Q, self.add(QS, S))
            S = self.at(f"{layer}.{j + 1}", "S").add(S, self.add(SS, S))
        return S, Q


def polyprox(M: list[list[int]], b: int, N: int, order: Order = SERIAL) -> Program:
    """One update of the Poly-prox block (arXiv 2610.10395, App. B) for W with the mask M, as its layers compute it."""
    p, s = len(M), N.bit_length() - 1
    n, mask = p * p, [m for row in M for m in row]
    if 4 * s * p**3 > MOST_OPERATIONS:
        raise Beyond(f"a block of p = {p} and N = {N} is larger than a checker expands")
    everywhere = {"Sigma": list(range(n)), "alpha": [0], "rho": [0], "gamma": [0], "lam": [0]}
    program = Program({"W": [k for k in range(n) if mask[k]], **everywhere}, order)
    ids = iter(range(program.nodes))
    W, Sigma = [next(ids) if m else ZERO for m in mask], [next(ids) for _ in mask]
    alpha, rho, gamma, lam = ([k] for k in ids)
    at = (do := _Block(program, p)).at

    B = at("1", "B").mul(W, W)
    S = at("1", "S").unary("scale", B, -s) if s else B
    tau = at("1", "tau").mul(gamma, lam) * n
    a_gamma = at("1", "a_gamma").mul(gamma, alpha)
    r_gamma = at("1", "r_gamma").mul(gamma, rho)
    S, Q = do.doubled(S, "2", s)
    d = S[:: p + 1]
    h = at("4", "h").total(d)
    SW = at("4", "SW").matmul(Sigma, W)
    X = [x if m else ZERO for x, m in zip(at("4", "X").sub(SW, Sigma), mask, strict=True)]
    HS = at("4", "HS").mul(W, [Q[j * p + i] for i in range(p) for j in range(p)])
    varsigma = at("4", "varsigma").add(do.mul(r_gamma, h), a_gamma) * n
    V = at("5", "V").sub(W, do.add(do.mul(gamma * n, X), do.unary("scale", do.mul(varsigma, HS), 1)))
    positive = at("6", "Wn").unary("relu", do.sub(V, tau))
    Wn = do.sub(positive, do.unary("relu", do.sub(do.unary("neg", V), tau)))
    at("7", "B").overwrite(B, do.mul(Wn, Wn))
    squares = at("7", "S").mul(Wn, Wn)
    S = do.overwrite(S, do.unary("scale", squares, -s) if s else squares)
    S, _ = do.doubled(S, "8", s)
    d = at("9", "d").overwrite(d, S[:: p + 1])
    h = at("10", "h_plus").total(d)
    alpha = at("10", "alpha").add(alpha, do.mul(rho if b else [ZERO], h))
    program.outputs = {"W": at("10", "W").overwrite(W, Wn), "alpha": alpha}
    program.known = {"W": [0.0] * n, "alpha": [0.0]}
    program.shapes = {name: (p, p) if name in ("W", "Sigma") else () for name in program.inputs}
    return program


# by their codes in a graph file; how many operands, 0 for any number, in pairs for a dot
_OPERATIONS: tuple[str, ...] = (
    "const",
    "sum",
    "sub",
    "dot",
    "neg",
    "relu",
    "scale",
    "overwrite",
    "div",
    "sqrt",
    "exp",
    "log",
    "max",
    "abs",
)
_OPERATIONS += ("tanh", "sigmoid", "select", "cast")
_COUNTS = (1, 0, 2, 0, 1, 1, 1, 3, 2, 1, 1, 1, 2, 1, 1, 1, 4, 1)


def from_file(data: bytes) -> Program:
    """The program in a graph file (docs/report-format.md); every index is checked before it is used."""
    saved = read(data, "the graph file")

    def array(name: str, dtype: str = "int32") -> list[Any]:
        tensor = saved.tensors.get(name)
        if tensor is None or tensor.dtype != dtype:
            raise Rejected(f"the graph file has no tensor {shown(name)} of type {dtype}")
        return tensor.values() if dtype == "float64" else tensor.integers()

    def listed(key: str, pair: bool = False) -> list[Any]:
        found = parse_json(saved.metadata.get(key, "").encode(), f"the {key} of the graph file")
        rows = [x if pair else [x, ""] for x in found] if isinstance(found, list) else [[None]]
        good = all(isinstance(x, list) and len(x) == 2 and all(isinstance(y, str) for y in x) for x in rows)
        if not good or len(set(map(tuple, rows))) < len(rows):
            raise Rejected(f"the {key} of the graph file are no list of different names or pairs of names")
        return list(found)

    op, at, operands = array("op", "uint8"), array("at", "int64"), array("operands")
    extra, place, constants = array("exponent"), array("place"), array("constants", "float64")
    outputs, places = listed("outputs"), listed("places", pair=True)
    mixed = "formats" in saved.metadata or "format" in saved.tensors
    formats, own = (listed("formats"), array("format")) if mixed else ([], [-1] * len(op))
    supports = {name: array(f"support/{name}", "uint8") for name in listed("inputs")}
    order = order_named(saved.metadata.get("order"))
    program = Program({name: [k for k, x in enumerate(flags) if x] for name, flags in supports.items()}, order)
    program.formats = formats
    program.shapes = {name: saved.tensors[f"support/{name}"].shape for name in supports}
    if not outputs or len({len(op), len(at) - 1, len(extra), len(place), len(own)}) > 1:
        raise Rejected("the graph file has no outputs, or arrays of different lengths")
    first = program.nodes
    for k, code in enumerate(op):
        if code >= len(_OPERATIONS):
            raise Beyond(f"the kernel has an operation of the code {code}, for which this checker has no rule")
        name, count = _OPERATIONS[code], _COUNTS[code]
        ids = operands[at[k] : at[k + 1]] if 0 <= at[k] <= at[k + 1] <= len(operands) else []
        stop, half, alone = len(constants) if name == "const" else program.nodes, len(ids) // 2, bool(extra[k])
        fits = ids and (len(ids) == count or (count == 0 and (name == "sum" or len(ids) % 2 == 0)))
        if name in ("sum", "dot") and alone:  # of two numbers, and none of the sums that the order is about
            fits, name = len(ids) == 2 and extra[k] == 1, "add" if name == "sum" else "mul"
        least = ZERO if name in ("sum", "dot") and order.keeps_places and max(ids, default=ZERO) >= 0 else 0
        fits = fits and (name != "sum" or sum(i >= 0 for i in ids) > 1)
        fits = fits and (name != "dot" or all((a < 0) == (b < 0) for a, b in zip(ids[:half], ids[half:], strict=True)))
        fits = fits and (name != "select" or extra[k] in (0, 1)) and -1 <= own[k] < len(formats)
        if not fits or min(ids) < least or max(ids) >= stop or not 0 <= place[k] < len(places) or abs(extra[k]) > 1023:
            raise Rejected(f"operation {k} of the graph file has operands that do not fit, or do not come before it")
        if name == "overwrite" and (ids[2] < first or program.code[ids[2] - first][:2] != ("sub", ids[1::-1])):
            raise Rejected(f"operation {k} of the graph file overwrites by something else than a difference")
        parts = (ids[:half], ids[half:]) if name == "dot" else [constants[ids[0]]] if name == "const" else ids
        format = formats[own[k]] if own[k] >= 0 else ""
        program.emit(name, parts, (places[place[k]][0], places[place[k]][1]), extra[k], format)
    for name in outputs:
        ids, known = array(f"ids/{name}"), array(f"known/{name}", "float64")
        program.outputs[name], program.known[name] = ids, known
        if len(ids) != len(known) or any(not ZERO <= i < program.nodes for i in ids):
            raise Rejected(f"the output {shown(name)} of the graph file has two sizes, or no such nodes")
    return program
