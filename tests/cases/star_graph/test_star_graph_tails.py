"""Every gamma is every gamma: what fails beyond the boxes, or only there, is proved by neither program."""

from __future__ import annotations

from fractions import Fraction

import pytest
from certify.cases.star_graph.circuit import TAIL, ball
from certify.cases.star_graph.proofs import require_positive
from certify.checker.cases.star_graph import circuit as checker

from certify.checker import Beyond, Rejected
from certify.errors import Undecided

ZERO, FAR = Fraction(0), Fraction(10**7)


def test_a_sign_that_changes_beyond_the_boxes_is_not_proved():
    """e^-gamma - 10^-7 is positive up to gamma = 16.1 only; both programs cut boxes up to 12."""
    assert TAIL == checker.TAIL == 12
    require_positive(lambda at: at.x - ball(1 / FAR), ZERO, Fraction(TAIL))
    checker.require_positive(lambda at: at.x - checker.exact(1 / FAR), ZERO, Fraction(TAIL))
    with pytest.raises(Undecided):
        require_positive(lambda at: at.x - ball(1 / FAR), ZERO)
    with pytest.raises((Beyond, Rejected)):
        checker.require_positive(lambda at: at.x - checker.exact(1 / FAR), ZERO, None)


def test_a_sign_that_changes_on_the_boxes_is_not_proved():
    """10^-1 - e^-gamma is negative below gamma = 2.3, and positive beyond."""
    with pytest.raises(Undecided):
        require_positive(lambda at: ball(Fraction(1, 10)) - at.x, ZERO)
    with pytest.raises((Beyond, Rejected)):
        checker.require_positive(lambda at: checker.exact(Fraction(1, 10)) - at.x, ZERO, None)
    require_positive(lambda at: ball(Fraction(1, 10)) - at.x, Fraction(3))
    checker.require_positive(lambda at: checker.exact(Fraction(1, 10)) - at.x, Fraction(3), None)
