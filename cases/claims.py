"""Rounding and range claims about a graph: what every case proves in the same way, and says in words of its own.

The theorems are in `certify.rounding`. A case gives its graph, the inputs at a state and the wording; the claims are made
here. Published bounds are relaxed (`certify.arithmetic.directed`), so that an evaluation in other arithmetic proves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from certify.cases.attained import attained
from certify.cases.origins import origins
from certify.cases.programs import one_program, program_assumptions, semantics_of

from certify.arithmetic import Format, Ieee
from certify.arithmetic.directed import relaxed_up
from certify.arithmetic.libm import Libm
from certify.certificate import Claim, Verdict, decimal_up, to_hex
from certify.certificate.claims import NOT_DEFINED
from certify.errors import InputRejected
from certify.graph import ZERO, Graph, evaluate
from certify.rounding import Adjoint, Bounds, Range, Region, adjoint, majorant, range_test, running
from certify.rounding.bounds import known_overflow

#: Methods of rounding claims on which no verdict rests: they stand beside the running bounds.
FOR_COMPARISON = ("majorant", "adjoint")


@dataclass(frozen=True)
class Wording:
    """How a case words its claims; `{format}` and `{radius}` stand for the format's name and the radius.

    Attributes
    ----------
    point, ball : where a claim holds, the start of the sentence.
    rounding, range : the rest of it, with its full stop.
    """

    point: str
    ball: str
    rounding: str
    range: str

    def everywhere(self, where: Mapping[str, str]) -> str:
        """Where a claim with these region parameters holds."""
        if where["kind"] == "point":
            return self.point
        return self.ball.replace("{radius}", repr(float.fromhex(where["radius"])))


@dataclass(frozen=True)
class Subject:
    """What all claims about one state share.

    Attributes
    ----------
    graph : the kernel, with its order.
    inputs : its variables at the state, by name; the centre of a ball is one of them.
    wording : how the claims are worded.
    parameters : what stands before format and order in the parameters of every claim.
    suffix : what ends every id.
    further : assumptions beside those about the arithmetic.
    """

    graph: Graph
    inputs: Mapping[str, npt.ArrayLike]
    wording: Wording
    parameters: Mapping[str, Any] = field(default_factory=dict)
    suffix: str = ""
    further: tuple[str, ...] = ()


@dataclass(frozen=True)
class Analysis:
    """Everything evaluated for one format and region; `where` are the region's parameters.

    Where the majorant rules do not apply, a sum being too long for the format, `majorant` says so in words. `adjoint` is
    there if it was asked for. `attained` is what stands beside the sharpest of them.
    """

    format: Format
    where: Mapping[str, str]
    running: Bounds
    majorant: Bounds | str
    tested: Range
    adjoint: Adjoint | None = None
    attained: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_range(self) -> bool:
        """Whether no operation can overflow, on which every error bound rests."""
        return self.tested.node is None


def point_region() -> dict[str, str]:
    """The region parameters of a claim at one state."""
    return {"kind": "point"}


def ball_region(radius: float, center: str | None = None) -> dict[str, str]:
    """The region parameters of a claim on a Frobenius ball; `center` names the input that moves, if a case has several."""
    named = {} if center is None else {"center": center}
    return {"kind": "ball", **named, "radius": to_hex(radius)}


def require_ball_to_split(splits: int, radius: float) -> None:
    """Refuse cuts of no ball. Raises InputRejected."""
    if splits and not radius:
        raise InputRejected(
            f"{splits} splits are asked for, and there is no ball to cut", "give a radius as well (--radius)"
        )


def analyse(
    subject: Subject,
    format: Format,
    where: Mapping[str, str],
    region: Region,
    libm: str | Libm | None = None,
    *,
    bounds: Bounds | None = None,
    bound: str = "running",
    splits: int = 0,
    attain: bool = False,
) -> Analysis:
    """Evaluate the bounds of `subject.graph` in `format` over `region`, which `where` describes, with this library.

    With `bound` "adjoint" the adjoint bounds as well, the region being cut in two `splits` times, and what is attained;
    with `attain` that beside running bounds too, which takes some more evaluations.

    `bounds` are its running bounds there, if they are known already, as from a batch.

    Raises
    ------
    InputRejected : the format cannot hold a power of two that the kernel scales by, or an input is missing.
    """
    if splits and bound != "adjoint":
        raise InputRejected(
            f"{splits} splits are asked for, and adjoint bounds are not", "give --bound adjoint as well"
        )
    bounds = running(subject.graph, format, region, libm=libm) if bounds is None else bounds
    rest = _majorant(subject.graph, format, region), range_test(bounds, region)
    if bound == "running":
        reached = attained(bounds, subject.inputs, where, rounds=1) if attain else {}
        return Analysis(format, where, bounds, *rest, attained=reached)
    sharper = adjoint(subject.graph, format, region, libm=bounds.libm, splits=splits)
    return Analysis(format, where, bounds, *rest, sharper, attained(sharper, subject.inputs, where, rounds=3))


def program_claims(
    subject: Subject,
    analysis: Analysis,
    *,
    values: Mapping[str, Any],
    observed: Mapping[str, Any] | None = None,
    display: Mapping[str, str] | None = None,
) -> list[Claim]:
    """The claims of a format and region: rounding by running, majorant and, if asked for, adjoint bounds, and range.

    Parameters
    ----------
    subject, analysis : what they are about.
    values : what a witness of an overflow says beside the place: the inputs it starts from.
    observed, display : what the running claim carries beside its bounds.
    """
    return [
        rounding_claim(subject, analysis, "running", observed, display),
        rounding_claim(subject, analysis, "majorant"),
        *([rounding_claim(subject, analysis, "adjoint", observed)] if analysis.adjoint else []),
        range_claim(subject, analysis, values),
    ]


def rounding_claim(
    subject: Subject,
    analysis: Analysis,
    method: str,
    observed: Mapping[str, Any] | None = None,
    display: Mapping[str, str] | None = None,
) -> Claim:
    """The claim that every output is within its eps of the exact one; certified only if nothing overflows."""
    bounds = {"running": analysis.running, "majorant": analysis.majorant, "adjoint": analysis.adjoint}[method]
    eps = published_eps(bounds) if analysis.in_range and isinstance(bounds, Bounds) else {}
    proved = bool(eps) and all(np.isfinite(value) for value in eps.values())
    obstacle = bounds if isinstance(bounds, str) else _obstacle(analysis)
    shown = {name: decimal_up(value) for name, value in eps.items()} if proved else {}
    grown: dict[str, Any] = {"growth": growth(analysis.running)} if method == "running" else {}
    if method == "adjoint" and analysis.adjoint is not None and proved:
        grown = origins(analysis.adjoint)
    return Claim(
        id=_id(subject, analysis, "rounding", "" if method == "running" else f"/{method}"),
        kind="rounding",
        statement=_statement(subject, analysis, subject.wording.rounding),
        semantics=semantics_of(subject.graph.order),
        parameters={**_parameters(subject, analysis), "method": method},
        verdict=Verdict.CERTIFIED if proved else Verdict.UNDECIDED,
        reason="" if proved else obstacle,
        bounds={name: to_hex(value) for name, value in eps.items()} if proved else {},
        observed={**(observed or {}), **(analysis.attained if proved and method != "majorant" else {}), **grown},
        assumptions=_assumptions(subject, analysis),
        theorem="docs/theory/adjoint.md#adjoint" if method == "adjoint" else f"docs/theory/rounding.md#{method}",
        display={**shown, **(display or {})} if proved else {},
    )


def _obstacle(analysis: Analysis) -> str:
    """Why there is no bound: what may overflow or is not defined, or that the bound itself leaves binary64."""
    risk, bounds = analysis.running.first_overflow(), analysis.running
    if risk is None:
        return "the bound is larger than any binary64 number"
    if bounds.refusal(risk):
        return f"{NOT_DEFINED}: {bounds.why(risk)}"
    return f"an overflow is not excluded: {analysis.tested.place or bounds.describe(risk)}"


def range_claim(subject: Subject, analysis: Analysis, values: Mapping[str, Any]) -> Claim:
    """The claim that no operation overflows: certified by the enclosures, or refuted by running the program.

    It is refuted at the stored inputs alone. They are in the region exactly, which a rounded midpoint need not be.
    """
    tested, format = analysis.tested, analysis.format
    # nothing that is in range passes the largest number, so the limit needs no room for another arithmetic
    peak = min(relaxed_up(tested.max_magnitude), max(format.largest, tested.max_magnitude))
    verdict, reason, place, witness = Verdict.CERTIFIED, "", "", None
    risk = analysis.running.first_overflow()
    if risk is not None:
        node = first_overflow(subject.graph, format, subject.inputs)
        named = risk if node is None else node
        place, limit = analysis.running.describe(named), analysis.running.limit_of(named)
        computed = subject.graph.operation_of(named) or ("" if named != ZERO else f"it passes {limit:g}")
        by = f" ({computed})" if computed else ""
        verdict, reason = Verdict.UNDECIDED, f"{place} may overflow{by}: its enclosure passes {limit:g}"
        if analysis.running.refusal(named):
            # a division by zero or a root of a negative number is not defined, which is no overflow
            reason = f"{NOT_DEFINED}: {analysis.running.why(named)}"
        elif node is not None:
            verdict, reason = Verdict.REFUTED, f"{place} overflows{by}"
            layer, register = _layer_and_register(analysis.running, node)
            witness = {"layer": layer, "register": register, **values}
    return Claim(
        id=_id(subject, analysis, "range", ""),
        kind="range",
        statement=_statement(subject, analysis, subject.wording.range),
        semantics=semantics_of(subject.graph.order),
        parameters={**_parameters(subject, analysis), "limit": to_hex(format.largest)},
        verdict=verdict,
        reason=reason,
        bounds={"max_magnitude": to_hex(peak)} if analysis.in_range else {},
        observed={"first_risk": place} if place else {},
        assumptions=_assumptions(subject, analysis),
        theorem="docs/theory/rounding.md#range",
        witness=witness,
        display={"max_magnitude": decimal_up(peak)} if analysis.in_range else {},
    )


def published_eps(bounds: Bounds) -> dict[str, float]:
    """`eps_NAME` for every output: its Euclidean (Frobenius) error bound, relaxed; infinite if there is none."""
    # of adjoint bounds the norm of the elements, which the checker can prove again
    norm = super(Adjoint, bounds).norm_of if isinstance(bounds, Adjoint) else bounds.norm_of
    return {f"eps_{name}": relaxed_up(norm(name)) for name in bounds.graph.outputs}


def growth(bounds: Bounds) -> list[list[str]]:
    """Layer by layer in execution order: layer, register with the largest error bound in it, that bound, largest |value|.

    Decimals, for drawing. Lines that belong to no layer are entries of their own. Ends before the first entry with an
    operation that is not proved finite.
    """
    graph = bounds.graph
    size = np.maximum(-bounds.low, bounds.high)
    entries: dict[tuple[str, Any], tuple[str, float, float]] = {}
    for start, stop, place in _spans(graph):
        error, magnitude = float(bounds.error[start:stop].max()), float(size[start:stop].max())
        if not (np.isfinite(error) and np.isfinite(magnitude)):
            break
        key = (place.layer, "" if place.layer else place)
        register, worst, largest = entries.get(key, ("", -1.0, 0.0))
        if error > worst:
            register, worst = place.register, error
        entries[key] = register, worst, max(largest, magnitude)
    return [
        [layer, register, decimal_up(worst, 2), decimal_up(largest, 2)]
        for (layer, _), (register, worst, largest) in entries.items()
    ]


def first_overflow(graph: Graph, format: Format, inputs: Mapping[str, npt.ArrayLike]) -> int | None:
    """The first node, inputs included, whose float is not finite when the program runs from `inputs`; None if there is none.

    ZERO if there is none but a known number of an output overflows.
    """
    ieee = Ieee(format, infinities=True)  # which computes the same up to the first overflow
    given = {block.name: ieee.constant(np.asarray(inputs[block.name], dtype=np.float64)) for block in graph.inputs}
    finite = np.isfinite(evaluate(one_program(graph), ieee, given))
    if not finite.all():
        return int(np.argmin(finite))
    return ZERO if known_overflow(graph, format) else None


def _layer_and_register(bounds: Bounds, node: int) -> tuple[str, str]:
    """Where `node` is computed; of an input, or an output whose known numbers overflow, an empty layer and its name."""
    graph = bounds.graph
    if node == ZERO:
        return "", known_overflow(graph, bounds.format)
    place = graph.place_of(node)
    if place is not None:
        return place.layer, place.register
    return "", next(block.name for block in graph.inputs if block.start <= node < block.stop)


def hex_values(array: npt.ArrayLike) -> list[str]:
    """The entries of an array as exact numbers, row by row."""
    return [to_hex(float(x)) for x in np.ravel(np.asarray(array, dtype=np.float64))]


def _majorant(graph: Graph, format: Format, region: Region) -> Bounds | str:
    try:
        return majorant(graph, format, region)
    except InputRejected as refused:  # a sum too long for the format: no bound, and the running bounds stand
        return refused.problem


def _spans(graph: Graph) -> Iterator[tuple[int, int, Any]]:
    """Of every instruction that has lanes: its first node, one past its last, and its place."""
    starts = graph.start.tolist()
    for start, stop, place in zip(starts, starts[1:], graph.place.tolist(), strict=False):
        if stop > start:
            yield start, stop, graph.places[place]


def _id(subject: Subject, analysis: Analysis, kind: str, method: str) -> str:
    region = analysis.where["kind"]
    return f"{kind}/{analysis.format.name}/{subject.graph.order}/{region}{method}{subject.suffix}"


def _parameters(subject: Subject, analysis: Analysis) -> dict[str, Any]:
    return {
        **subject.parameters,
        "format": analysis.format.name,
        "order": subject.graph.order,
        "region": dict(analysis.where),
    }


def _statement(subject: Subject, analysis: Analysis, rest: str) -> str:
    return f"{subject.wording.everywhere(analysis.where)}, {rest.replace('{format}', analysis.format.name)}"


def _assumptions(subject: Subject, analysis: Analysis) -> list[str]:
    library = analysis.running.assumptions()
    own = subject.graph.format_names
    return [*program_assumptions(analysis.format, subject.graph.order, own), *library, *subject.further]
