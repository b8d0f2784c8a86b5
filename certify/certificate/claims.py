"""Claims: what a run says about a state, each with the evidence that lets someone else decide it again."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from certify.certificate.numbers import require_number
from certify.errors import InputRejected

SEMANTICS = ("real", "program", "any-order", "stochastic")
#: What claims with a probability have in common, and no others: these semantics, and how their kinds end.
STOCHASTIC, PROBABLE = "stochastic", "-probable"
#: Kinds whose certified claims may carry no number: the statement and the parameters say everything.
KINDS_WITHOUT_NUMBERS = ("range", "exactness", "precision", "identity")
#: The bounds of which a certified claim of the kind must carry one, or a pair.
COMPARISONS: Mapping[str, Sequence[frozenset[str]]] = {
    "margin": (frozenset({"margin"}), frozenset({"low", "high"})),
    "order": (frozenset({"gap"}),),
    "expectation": (frozenset({"value"}), frozenset({"low", "high"})),
    "enclosure": (frozenset({"low", "high"}),),
}
#: How the reason of a range claim begins where an operation may have no result at all, as a division by 0.
NOT_DEFINED = "not proved to be defined"
COMPARED = ("identity", *COMPARISONS)
#: A published statement that was found false: its parameters say what was published and where, its witness is an instance.
COUNTEREXAMPLE = "counterexample"
PUBLISHED = ("published", "source")
ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._/()=:+,-]{0,199}"
KIND_PATTERN = r"[a-z][a-z0-9-]{0,39}"
SHA256_PATTERN = r"[0-9a-f]{64}"
#: A file beside the report, never a path that leads elsewhere.
WITNESS_FILE_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_LARGEST_INTEGER = 2**63 - 1


class Verdict(enum.StrEnum):
    """What became of a claim. Undecided is no negative result: the test at hand did not settle the question."""

    CERTIFIED = "certified"
    REFUTED = "refuted"
    UNDECIDED = "undecided"

    @property
    def remedy(self) -> str:
        """What a person can do next."""
        return {
            Verdict.CERTIFIED: "check the report with an independent run of `certify check`",
            Verdict.REFUTED: "read the witness: it is an input for which the statement is false",
            Verdict.UNDECIDED: "read the reason: it names the inequality that failed and what would change it",
        }[self]


@dataclass(frozen=True)
class Claim:
    """One statement about one subject, with its verdict.

    Invariants, which the report, the gate and the renderers rely on: `id` is stable across runs; every value of
    `bounds` is an exact number string (rounded up where it is an upper bound); no float occurs anywhere; a claim
    that is not certified has a reason; a certified one has a bound or a witness, except for the kinds that
    need no number. Tuples are stored as lists, as JSON has only those.

    Attributes
    ----------
    id : the key the gate compares by, such as `rounding/float32/serial/ball`.
    kind : rounding, range, contraction, updates, precision; identity, margin, order, expectation, enclosure,
        counterexample, which docs/report-format.md defines; or a case's own.
    statement : one sentence with its quantifiers.
    semantics : `real` (the exact function of the stored numbers), `program` (a fixed sequence of IEEE operations),
        `any-order` (every summation order) or `stochastic` (a program whose operations round stochastically: what the claim
        says has a probability, and its kind ends in `-probable`).
    parameters : format, order, region, limits: what the statement depends on.
    verdict : undecided unless proved.
    reason : why it is not certified, or what decided it.
    bounds : what was proved, by name, as exact number strings.
    observed : what was sampled or replayed; never a bound.
    assumptions : what the proof takes for granted about the arithmetic.
    theorem : where the proof stands, such as `polyprox.md#3`.
    witness : evidence for the checker, or `{"file": NAME, "sha256": HEX}` for a file beside the report.
    display : decimals for people; the checker ignores them.

    Raises
    ------
    ValueError : an invariant is violated, which is a fault of the program that makes the claim.
    """

    id: str
    kind: str
    statement: str
    semantics: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = Verdict.UNDECIDED
    reason: str = ""
    bounds: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)
    assumptions: Sequence[str] = ()
    theorem: str = ""
    witness: Mapping[str, Any] | None = None
    display: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Into plain containers of its own: a claim does not change when its producer's dictionaries do.
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        for name in ("parameters", "bounds", "observed", "display", "witness"):
            value = getattr(self, name)
            if value is None and name == "witness":
                continue
            if not isinstance(value, Mapping):
                raise ValueError(f"claim {self.id!r}: {name} is no mapping")
            object.__setattr__(self, name, plain(value, f"claim {self.id!r}: {name}"))
        self._require_texts()
        self._require_evidence()

    def to_json(self) -> dict[str, Any]:
        """Return the claim as JSON values, keys in the order of the report format."""
        return {
            "id": self.id,
            "kind": self.kind,
            "statement": self.statement,
            "semantics": self.semantics,
            "parameters": self.parameters,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "bounds": self.bounds,
            "observed": self.observed,
            "assumptions": list(self.assumptions),
            "theorem": self.theorem,
            "witness": self.witness,
            "display": self.display,
        }

    def _require_texts(self) -> None:
        for name in ("id", "kind", "statement", "semantics", "reason", "theorem"):
            text = plain(getattr(self, name), f"claim {self.id!r}: {name}", only=str)
            object.__setattr__(self, name, text)
        for name in ("assumptions", "display", "bounds"):
            values = getattr(self, name)
            for value in values.values() if isinstance(values, dict) else values:
                plain(value, f"claim {self.id!r}: an entry of {name}", only=str)
        if re.fullmatch(ID_PATTERN, self.id) is None:
            raise ValueError(f"claim {self.id!r}: the id must match {ID_PATTERN}")
        if re.fullmatch(KIND_PATTERN, self.kind) is None:
            raise ValueError(f"claim {self.id!r}: the kind {self.kind!r} must match {KIND_PATTERN}")
        if self.semantics not in SEMANTICS:
            raise ValueError(f"claim {self.id!r}: the semantics {self.semantics!r} is none of {SEMANTICS}")
        if (self.semantics == STOCHASTIC) != self.kind.endswith(PROBABLE):
            raise ValueError(
                f"claim {self.id!r}: a probability has the semantics {STOCHASTIC} and a kind in {PROBABLE}"
            )
        if not self.statement:
            raise ValueError(f"claim {self.id!r}: the statement is empty")

    def _require_evidence(self) -> None:
        for name, text in self.bounds.items():
            try:
                require_number(text)
            except InputRejected as error:
                raise ValueError(f"claim {self.id!r}: bound {name!r}: {error}") from error
        if self.verdict is not Verdict.CERTIFIED:
            if not self.reason:
                raise ValueError(f"claim {self.id!r}: the verdict {self.verdict.value} needs a reason")
        elif not self.bounds and not self.witness and self.kind not in KINDS_WITHOUT_NUMBERS:
            raise ValueError(f"claim {self.id!r}: a certified claim needs a bound or a witness")
        self._require_comparison()
        if self.witness is not None and "file" in self.witness:
            file, sha256 = (str(self.witness.get(key)) for key in ("file", "sha256"))
            if re.fullmatch(WITNESS_FILE_PATTERN, file) is None or not re.fullmatch(SHA256_PATTERN, sha256):
                raise ValueError(f"claim {self.id!r}: a witness file needs a plain name and its sha256")

    def _require_comparison(self) -> None:
        """What the kinds that compare something must say, so that a reader need not know the case."""
        wanted = COMPARISONS.get(self.kind, ())
        if self.verdict is Verdict.CERTIFIED and wanted and not any(names <= self.bounds.keys() for names in wanted):
            named = " or ".join(" and ".join(sorted(names)) for names in wanted)
            raise ValueError(f"claim {self.id!r}: a certified claim of the kind {self.kind} needs the bounds {named}")
        if self.kind == COUNTEREXAMPLE:
            if self.verdict is Verdict.CERTIFIED or (self.verdict is Verdict.REFUTED and not self.witness):
                raise ValueError(f"claim {self.id!r}: a counterexample is refuted, with a witness, or undecided")
            if not all(isinstance(self.parameters.get(name), str) and self.parameters[name] for name in PUBLISHED):
                raise ValueError(f"claim {self.id!r}: a counterexample says what was published, and its source")


def overall(claims: Iterable[Claim], required_ids: Iterable[str] | None = None) -> Verdict:
    """Return the verdict of several claims together.

    `refuted` if any claim that counts is refuted; else `certified` if there is at least one and all are
    certified; else `undecided`. No claims at all are undecided: an empty report is no success.

    Parameters
    ----------
    claims : the claims of a report.
    required_ids : the ids of the claims that count; all of them if None. A report that tries several formats is
        not undecided because float16 overflows, if the caller asked for float32.

    Raises
    ------
    ValueError : a required id has no claim.
    """
    by_id = {claim.id: claim for claim in claims}
    if required_ids is not None:
        required = list(required_ids)
        missing = [name for name in required if name not in by_id]
        if missing:
            raise ValueError(f"the required claim {missing[0]!r} is not in the report")
        by_id = {name: by_id[name] for name in required}
    verdicts = {claim.verdict for claim in by_id.values()}
    if Verdict.REFUTED in verdicts:
        return Verdict.REFUTED
    return Verdict.CERTIFIED if verdicts == {Verdict.CERTIFIED} else Verdict.UNDECIDED


def plain(value: Any, where: str, *, only: type | None = None, depth: int = 0) -> Any:
    """Return `value` as JSON values of its own: dicts with string keys, lists, strings, ints, bools, None.

    Raises
    ------
    ValueError : a float (inexact as JSON, so it must be a number string), a NumPy scalar, an integer beyond 64
        bits, text that is not valid Unicode, nesting beyond 40 levels, or not of the type `only`.
    """
    if only is not None and not isinstance(value, only):
        raise ValueError(f"{where} is {type(value).__name__}, not {only.__name__}")
    if depth > 40:
        raise ValueError(f"{where} is nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"{where} holds text that is not valid Unicode") from error
        # Not str(value), which gives the name of a member of a str enumeration.
        return str.__str__(value)
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise ValueError(f"{where} holds an integer beyond 64 bits; write it as a string")
        return int(value)
    if isinstance(value, Mapping):
        return {
            plain(key, f"a key of {where}", only=str): plain(entry, f"{where}/{key}", depth=depth + 1)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(entry, f"{where}/{i}", depth=depth + 1) for i, entry in enumerate(value)]
    if isinstance(value, float):
        raise ValueError(f"{where} holds the float {value!r}; write it exactly, with to_hex")
    raise ValueError(f"{where} holds a {type(value).__name__}; convert it to text or a Python int")
