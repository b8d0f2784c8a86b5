"""The numbers of a page: what is first, what it means, and what a drawing or a sorted column makes of it."""

from __future__ import annotations

import pytest
from page_reports import contraction, overflow, rounding, updates

from certify.page.numbers import exact, headline, meaning, measured, sort_key


def test_the_bound_that_a_claim_is_about():
    """By kind; the first one of a kind or of names that nobody knows; none where there is none."""
    assert headline(contraction(0)) == ("q", "0x1.ff99a145dfd1bp-1")
    assert headline(updates(0)) == ("count", "44")
    assert headline(overflow("float16", 0)) == ("", "")
    assert headline(rounding("float16", 0, bounds={"eps_0": "1/3", "eps_1": "2"})) == ("eps_0", "1/3")


def test_what_bounds_mean():
    """The names of the format, any output of a kernel, and nothing for others."""
    assert meaning("q").startswith("contraction factor")
    assert meaning("eps_y") == "largest error of the output y, Frobenius norm"
    assert meaning("other") == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.2e-07", 1.2e-7),
        ("-3", -3.0),
        ("0", 0.0),
        ("inf", None),
        ("nan", None),
        ("1e999", None),
        ("٣", None),
        ("1_0", None),
    ],
)
def test_measured_decimals(text, value):
    """Finite decimals in ASCII alone."""
    assert measured(text) == value


@pytest.mark.parametrize("text", [3, None, True, ["1"], "", "1" * 99])
def test_what_is_no_decimal(text):
    """Other types and other lengths are no number."""
    assert measured(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("0x1.8p+1", 3.0), ("0x1p-20", 2.0**-20), ("0x1p+9999", None), ("3", None), (7, None)]
)
def test_exact_numbers_for_a_drawing(text, value):
    """Hexadecimal numbers within the range of a float."""
    assert exact(text) == value


def test_sort_keys():
    """Numbers that JavaScript reads, in the order of the exact ones; nothing for none or for one beyond its range."""
    assert [sort_key(text) for text in ("0x1p-1", "1/4", "44", "", "0x1p+999999")] == ["0.5", "0.25", "44.0", "", ""]
