"""What a page shows beside the claims themselves: a report arranged for a person, in words."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from certify.certificate import Claim, Verdict


class Status(enum.StrEnum):
    """What became of a claim in the hands of the independent checker."""

    PROVED = "proved again"
    REJECTED = "rejected"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Check:
    """The checker's word on one claim: the status, and a sentence that says why; empty if there is nothing to add."""

    status: Status
    sentence: str = ""


@dataclass(frozen=True)
class FormatRow:
    """One format at one state, or the worst of several. Numbers are text, `-` where nothing is known.

    Attributes
    ----------
    format : its name, with the order of sums if the report has several.
    digits_norm, digits_worst : decimal digits of W that one update keeps: of its norm, and of its worst entry.
    point_bound, point_seen : the error at the state, Frobenius norm: proved to be at most, and seen.
    ball_bound, ball_seen : the error anywhere on the ball: proved to be at most, and the largest seen.
    point_ratio, ball_ratio : how many times what is attained these bounds are.
    risk : the first operation that overflows or may, as a clause; empty if none.
    verdict : of the claims about this format together.
    """

    format: str
    digits_norm: str
    digits_worst: str
    point_bound: str
    point_seen: str
    ball_bound: str
    ball_seen: str
    risk: str
    verdict: Verdict
    point_ratio: str = "-"
    ball_ratio: str = "-"


@dataclass(frozen=True)
class StageLine:
    """One answer about the repeated update: what was asked, the verdict, the numbers proved or what failed."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class ComparedLine:
    """A claim that compares quantities: its id, the verdict, the numbers proved or why there are none."""

    id: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class PublishedLine:
    """A published statement: the claim that tests it, the verdict, what was published and where, what was tested and found."""

    id: str
    verdict: Verdict
    published: str
    tested: str
    found: str


@dataclass(frozen=True)
class StateView:
    """One state of the report, or one of several kernels.

    Attributes
    ----------
    title : what it is called, as a heading.
    caption : what its rows are about.
    rows : one a format.
    away : how far the centre of the balls is from the state, as text; empty if the report says nothing of it.
    lines : about the repeated update.
    claims : the claims about it, in the order of the report.
    """

    title: str
    caption: str
    rows: Sequence[FormatRow]
    away: str
    lines: Sequence[StageLine]
    claims: Sequence[Claim]


@dataclass(frozen=True)
class Overview:
    """A report in words.

    Attributes
    ----------
    subject : what the report is about, in a few words.
    basis : the formats that the verdict rests on, as in ` in float32`; may be empty.
    advice : which format to use, one sentence.
    program, result, place : what runs, what it computes, and where, in words: one update, W, state.
    ball : what the balls hold, as a clause; empty if the report has none.
    stage_title : what the lines about the repeated update answer; empty if there are none.
    worst : one row a format, the worst over all states and kernels.
    worst_of : what that is the worst of, as in `all 3 states`.
    states : in the order of the report.
    compared, published : comparisons, and published statements that were tested.
    """

    subject: str
    basis: str
    advice: str
    program: str
    result: str
    place: str
    ball: str
    stage_title: str
    worst: Sequence[FormatRow]
    worst_of: str
    states: Sequence[StateView]
    compared: Sequence[ComparedLine]
    published: Sequence[PublishedLine]
