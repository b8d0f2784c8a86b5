"""Reads a user's traced kernel from its graph file; every index is checked before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certify.checker.document import Beyond, Rejected, parse_json, shown
from certify.checker.program import MOST_OPERATIONS, ZERO, Program, live
from certify.checker.saved import Saved, read

_OPS = ("const", "sum", "sub", "dot", "neg", "relu", "scale", "sum", "dot", "overwrite")
_ELEMENTS = {"op": "uint8", "start": "int64", "left_at": "int64", "right_at": "int64", "constants": "float64"}
_ELEMENTS |= dict.fromkeys(("terms", "left", "right", "exponent", "place"), "int32")


def from_file(data: bytes) -> Program:
    """The program in a graph file: instructions over ranges of nodes, each reading nodes before its own only.

    Codes 0 to 9 are const, add, sub, mul, neg, relu, scale, sum, dot, overwrite; operands of sum and dot are (terms,
    lanes) and (terms, I), (terms, J), where -1 is a zero; those of overwrite are x, then y, then y - x.
    """
    saved = read(data, "the graph file")
    arrays = {name: _array(saved, name, dtype) for name, dtype in _ELEMENTS.items()}
    names, outputs, places = (_strings(saved, key) for key in ("inputs", "outputs", "places"))
    pairs = all(isinstance(x, list) and len(x) == 2 for x in places)
    if saved.metadata.get("order") != "serial" or not outputs or not pairs:
        raise Rejected("the graph file has sums in another order than serial, no outputs, or places that are no pairs")
    supports = {name: _array(saved, f"support/{name}", "uint8") for name in names}
    program = Program({name: [k for k, x in enumerate(flags) if x] for name, flags in supports.items()})
    program.shapes = {name: saved.tensors[f"support/{name}"].shape for name in names}
    count = len(arrays["op"])
    lengths = [len(arrays[x]) for x in ("start", "left_at", "right_at", "terms", "exponent", "place")]
    if lengths != [count + 1] * 3 + [count] * 3:
        raise Rejected("the arrays of the graph file do not have one entry an instruction")
    if arrays["start"][0] != program.nodes or arrays["start"][-1] > MOST_OPERATIONS:
        raise Rejected("the nodes of the graph file do not follow its inputs, or are too many")
    differences: dict[int, Any] = {}
    for k in range(count):
        _instruction(program, arrays, k, places, differences)
    for name in outputs:
        program.outputs[name] = _array(saved, f"ids/{name}", "int32")
        program.known[name] = _array(saved, f"known/{name}", "float64")
        if len(program.outputs[name]) != len(program.known[name]):
            raise Rejected(f"the output {shown(name)} of the graph file has two sizes")
        _require_ids(program.outputs[name], ZERO, program.nodes)
    return program


def _array(saved: Saved, name: str, dtype: str) -> list[Any]:
    if name not in saved.tensors or saved.tensors[name].dtype != dtype:
        raise Rejected(f"the graph file has no tensor {shown(name)} of type {dtype}")
    return saved.tensors[name].values()


def _strings(saved: Saved, key: str) -> list[Any]:
    """A list of distinct names, or of pairs of names."""
    found = parse_json(saved.metadata.get(key, "").encode(), f"the {key} of the graph file")
    flat = [y for x in found for y in (x if isinstance(x, list) else [x])] if isinstance(found, list) else [None]
    if not all(isinstance(x, str) for x in flat) or (key != "places" and len(set(flat)) < len(found)):
        raise Rejected(f"the {key} of the graph file are no list of names")
    return list(found)


def _require_ids(ids: Sequence[int], least: int, stop: int) -> None:
    if ids and not least <= min(ids) <= max(ids) < stop:
        raise Rejected(f"an operand of the graph file is not among the nodes before node {stop}")


def _instruction(program: Program, arrays: Any, k: int, places: list[Any], differences: dict[int, Any]) -> None:
    """Append instruction k as a step, if its operands fit."""
    code, terms, exponent, place = (arrays[x][k] for x in ("op", "terms", "exponent", "place"))
    (start, stop), (l0, l1), (r0, r1) = (arrays[x][k : k + 2] for x in ("start", "left_at", "right_at"))
    left, right, lanes = arrays["left"][l0:l1], arrays["right"][r0:r1], stop - start
    fits = start == program.nodes and 0 <= l0 <= l1 <= len(arrays["left"]) and 0 <= r0 <= r1 <= len(arrays["right"])
    if not fits or code > 9 or lanes < 0 or not 0 <= place < len(places) or abs(exponent) > 1023:
        raise Rejected(f"instruction {k} of the graph file is out of its ranges")
    many, made = code in (7, 8), list[Any]()
    op = _OPS[code]
    _require_ids(left, ZERO if many else 0, len(arrays["constants"]) if code == 0 else start)
    _require_ids(right, ZERO if many else 0, start)
    width, height = (len(left) // terms, len(right) // terms) if many and terms > 0 else (lanes, 0)
    sizes = [(lanes, 0), (lanes, lanes), (lanes, lanes), (lanes, lanes), (lanes, 0), (lanes, 0), (lanes, 0)]
    sizes += [(terms * lanes, 0), (terms * width, terms * height), (lanes, 2 * lanes)]
    if (len(left), len(right)) != sizes[code] or (code == 8 and width * height != lanes) or many != (terms > 0):
        raise Rejected(f"instruction {k} of the graph file has operands of the wrong sizes")
    program.work += lanes * max(terms, 1)
    if program.work > MOST_OPERATIONS:
        raise Beyond("the graph file holds more operations than a checker evaluates")
    if code == 0:
        made = [(arrays["constants"][x],) for x in left]
    elif code == 7:
        made = [[x for x in left[j::lanes] if x != ZERO] for j in range(lanes)]
    elif code == 8:
        columns = [right[j::height] for j in range(height)]
        made = [live(left[i::width], column) for i in range(width) for column in columns]
    elif code == 3:
        made = [((x,), (y,)) for x, y in zip(left, right, strict=True)]
    elif code == 9:
        made = list(zip(left, right[:lanes], right[lanes:], strict=True))
        if any(differences.get(d) != (y, x) for x, y, d in made):
            raise Rejected(f"instruction {k} of the graph file overwrites by something else than a difference")
    else:
        made = list(zip(left, right, strict=True)) if right else [(x,) for x in left]
    ids = program.emit(op, (places[place][0], places[place][1]), made, exponent if code == 6 else 0)
    if code == 2:
        differences.update(zip(ids, made, strict=True))
