"""The report file `certify-report/1`: the same bytes for the same run, and no second reading of any byte."""

from __future__ import annotations

import functools
import importlib.resources
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from certify.certificate.claims import STOCHASTIC, Claim, Verdict, overall, plain
from certify.certificate.side_files import detached
from certify.errors import InputRejected
from certify.states.atomic import write_atomically
from certify.states.quoting import quoted
from certify.states.strict_json import first_float, parse_json, pointer

SCHEMA_ID = "certify-report/1"
MAX_BYTES = 32 << 20
MAX_CLAIMS = 10_000
_REMEDY = "make the report again with `certify run`"


@dataclass(frozen=True)
class Report:
    """What one run found.

    Attributes
    ----------
    producer : `name`, `version` and `arithmetic` (the results of the arithmetic self-test, strings or bools).
    subject : `case` and what identifies the state: sizes, tensor digests, controls as exact numbers.
    claims : at least one, in the order to show, each with its own id.
    required : the ids of the claims that the overall verdict rests on; None means all. No verdict rests on a probability:
        beside claims of `stochastic` semantics the others that count are named.
    beside : the files that the subject names, by plain name: written beside the report, and no part of it.

    Raises
    ------
    ValueError : two claims share an id, a required id has no claim, the verdict would rest on a probability, or a float occurs
        anywhere.
    """

    producer: Mapping[str, Any]
    subject: Mapping[str, Any]
    claims: Sequence[Claim]
    required: Sequence[str] | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "producer", plain(self.producer, "producer"))
        object.__setattr__(self, "subject", plain(self.subject, "subject"))
        object.__setattr__(self, "claims", tuple(self.claims))
        if self.required is not None:
            object.__setattr__(self, "required", tuple(self.required))
        seen: set[str] = set()
        for claim in self.claims:
            if claim.id in seen:
                raise ValueError(f"two claims have the id {claim.id!r}")
            seen.add(claim.id)
        likely = {claim.id for claim in self.claims if claim.semantics == STOCHASTIC}
        if likely and (not self.required or likely & set(self.required)):
            raise ValueError(
                "the verdict would rest on a probability: name the claims that it rests on, proved ones only"
            )
        overall(self.claims, self.required)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the claims that count, as `overall` combines them."""
        return overall(self.claims, self.required)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, keys in the order of the format; `required` only where it is set."""
        return {
            "schema": SCHEMA_ID,
            "producer": self.producer,
            "subject": self.subject,
            "claims": [claim.to_json() for claim in self.claims],
            **({} if self.required is None else {"required": list(self.required)}),
            "verdict": self.verdict.value,
        }


def encode(report: Report) -> bytes:
    """Return the bytes of a report, which only its contents fix; UTF-8, one value a line, a final newline.

    Raises
    ------
    InputRejected : the report holds no claim.
    ValueError : it is outside its own schema or limits, so that `decode` would refuse it.
    """
    if not report.claims:
        raise InputRejected("the report would hold no claim", "ask for at least one format or method")
    text = json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False, indent=1)
    data = text.encode("utf-8") + b"\n"
    try:
        decode(data, "to be written")
    except InputRejected as error:
        raise ValueError(error.problem) from error
    return data


def decode(data: bytes, name: str) -> Report:
    """Return the report in `data`; `name` is what messages call it.

    The claims are read, not believed: only the checker decides whether they hold.

    Raises
    ------
    InputRejected : larger than 32 MiB, not strict JSON, a float anywhere, outside the schema, no claim, an
        invariant of `Claim` or `Report` violated, or an overall verdict that its claims do not give.
    """
    if len(data) > MAX_BYTES:
        raise InputRejected(
            f"the report {quoted(name)} has more than {MAX_BYTES} bytes", "keep witnesses in files beside it"
        )
    document = parse_json(data, name, what="report", remedy=_REMEDY)
    _require_claims(document, name)
    place = first_float(document)
    if place is not None:
        raise _rejected(document, name, place, "a JSON number with a fraction or exponent is not exact")
    _require_schema(document, name)
    claims = [_claim(document, index, name) for index in range(len(document["claims"]))]
    try:
        report = Report(document["producer"], document["subject"], claims, document.get("required"))
    except ValueError as error:
        raise InputRejected(f"the report {quoted(name)} is not valid: {error}", _REMEDY) from error
    if document["verdict"] != report.verdict.value:
        raise InputRejected(
            f"the report {quoted(name)} says {document['verdict']}, but its claims give {report.verdict.value}",
            _REMEDY,
        )
    return report


def write(report: Report, path: str | os.PathLike[str]) -> Report:
    """Write a report in one step: a reader sees the old file or the whole new one. Returns it as it was written.

    The files that its subject names and large witnesses (`certify.certificate.side_files`) go beside it before, so that a
    report that is there has its files whenever this is interrupted. A device or a pipe has no files beside it, and gets the
    report in one piece.

    Raises
    ------
    InputRejected : the report holds no claim, or a file cannot be written.
    """
    files: dict[str, bytes] = {}
    if os.path.isfile(path) or not os.path.exists(path):
        report, files = detached(report)
        files |= report.beside
    data = encode(report)
    for name, contents in files.items():
        write_atomically(os.path.join(os.path.dirname(os.fspath(path)), name), contents)
    write_atomically(path, data)
    return report


def read(path: str | os.PathLike[str]) -> Report:
    """Read a report file.

    Raises
    ------
    InputRejected : the file is missing or unreadable, or as for `decode`.
    """
    return decode(read_bytes(path), os.fspath(path))


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Read the bytes of a report, or of a file beside it: of a larger one `limit` + 1, for its reader to refuse.

    Raises
    ------
    InputRejected : the file is missing or unreadable.
    """
    name = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputRejected(f"{quoted(name)} is not a regular file", "name a file")
        with open(path, "rb") as stream:
            return stream.read(limit + 1)
    except FileNotFoundError as error:
        raise InputRejected(f"there is no file {quoted(name)}", "check the path") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot read {quoted(name)}: {reason}", "check the path and its permissions") from error
    except ValueError as error:  # a null character in the path
        raise InputRejected(f"{quoted(name)} is not a possible file name", "check the path") from error


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of reports."""
    text = importlib.resources.files("certify.certificate").joinpath("schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _require_claims(document: Any, name: str) -> None:
    """Bound the work of validation, and say the two commonest faults in plain words."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA_ID:
        raise InputRejected(f"{quoted(name)} is not a {SCHEMA_ID} file", _REMEDY)
    claims = document.get("claims")
    if claims == []:
        raise InputRejected(f"the report {quoted(name)} holds no claim", _REMEDY)
    if isinstance(claims, list) and len(claims) > MAX_CLAIMS:
        raise InputRejected(f"the report {quoted(name)} holds more than {MAX_CLAIMS} claims", _REMEDY)


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())


def _require_schema(document: Any, name: str) -> None:
    # The first error only: a hostile report must not cost one message for each of its faults.
    error = next(_validator().iter_errors(document), None)
    if error is not None:
        raise _rejected(document, name, pointer(tuple(error.absolute_path)), error.message)


def _claim(document: Any, index: int, name: str) -> Claim:
    try:
        return Claim(**document["claims"][index])
    except ValueError as error:
        raise InputRejected(f"the report {quoted(name)} is not valid at /claims/{index}: {error}", _REMEDY) from error


def _rejected(document: Any, name: str, place: str, reason: str) -> InputRejected:
    parts = place.split("/")
    of_claim = ""
    if len(parts) > 2 and parts[1] == "claims" and isinstance(document["claims"], list):
        claim = document["claims"][int(parts[2])]
        if isinstance(claim, dict) and isinstance(claim.get("id"), str):
            of_claim = f" (claim {quoted(claim['id'])})"
    shown = quoted(reason)[1:-1]
    return InputRejected(
        f"the report {quoted(name)} is not valid at {quoted(place)[1:-1] or '/'}{of_claim}: {shown}", _REMEDY
    )
