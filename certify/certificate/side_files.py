"""Large witnesses, in files beside a report: arrays of numbers that nobody reads in JSON.

A file is named by its digest, so claims with the same witness share one, and no report can name another's file by mistake.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from certify.certificate.numbers import to_hex

if TYPE_CHECKING:
    from certify.certificate.report import Report

#: Bytes of JSON up to which a witness stays in its report.
LARGEST_WITNESS = 100_000
_Any = TypeVar("_Any", bound="Report")


def detached(report: _Any) -> tuple[_Any, dict[str, bytes]]:
    """Return the report with each large witness replaced by the name and digest of a file; and those files, by name.

    The lists of number strings of such a witness become rows of float64 numbers, called KEY, or OUTER/KEY where they are
    in an object of the witness; its other values stay.
    """
    files: dict[str, bytes] = {}
    claims = []
    for claim in report.claims:
        if claim.witness is not None and len(json.dumps(claim.witness)) > LARGEST_WITNESS:
            rest, rows = _separated(claim.witness)
            if rows:
                reference, data = _file(rows)
                files[reference["file"]] = data
                claim = replace(claim, witness={**rest, **reference})
        claims.append(claim)
    return (replace(report, claims=claims), files) if files else (report, {})


def _separated(witness: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What stays, and the rows; an object that is left empty does not stay."""
    rest: dict[str, Any] = {}
    rows: dict[str, list[float]] = {}
    for key, value in witness.items():
        inner = (
            {f"{key}/{name}": _row(x) for name, x in value.items()} if isinstance(value, dict) else {key: _row(value)}
        )
        found = {name: row for name, row in inner.items() if row is not None}
        if len(found) == len(inner) > 0:
            rows |= found
        else:
            rest[key] = value
    return rest, rows


def _row(value: Any) -> list[float] | None:
    """The binary64 numbers of a list whose texts are exactly those that `to_hex` writes; None of anything else."""
    try:
        row = [float.fromhex(text) for text in value] if isinstance(value, list) else []
        return row if isinstance(value, list) and [to_hex(x) for x in row] == value else None
    except (TypeError, ValueError, OverflowError):
        return None


def _file(rows: Mapping[str, list[float]]) -> tuple[dict[str, str], bytes]:
    import numpy as np

    from certify.states.safetensors_file import encode_safetensors

    data = encode_safetensors({name: np.array(row) for name, row in rows.items()}, {})
    sha256 = hashlib.sha256(data).hexdigest()
    return {"file": f"witness-{sha256[:16]}.safetensors", "sha256": sha256}, data
