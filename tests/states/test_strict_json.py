"""Strict JSON: what Python's parser reads in its own way is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify.errors import InputRejected
from certify.states import first_float, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=20,
)


def parse(data):
    """Parse as a report would be."""
    return parse_json(data, "r.json", what="report", remedy="make it again")


@given(VALUES, st.booleans())
def test_valid_values_are_read(value, escaped):
    """Whatever json writes comes back, escaped or not."""
    assert parse(json.dumps(value, ensure_ascii=escaped).encode()) == value


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        (b'{"a": 1, "\\u0061": 2}', "'a' occurs twice"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"[" + b"1" * 21 + b"]", "21 characters"),
        (b"1" * 100_000, "100000 characters"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b"", "line 1 column 1"),
        (b"{} {}", "Extra data"),
        (b"{'a': 1}", "line 1 column 2"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64"),
        (b"[" * 500_000, "nested deeper than 64|line 1"),
        (b"[" + b"[]," * 600_000 + b"1]", "more than 1000000 elements"),
    ],
)
def test_ambiguous_or_hostile_text_is_refused(text, match):
    """Each reason is given, with the name of the file, on one line."""
    with pytest.raises(InputRejected, match=match) as caught:
        parse(text)
    assert "'r.json'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nesting_up_to_the_limit_is_read():
    """64 levels are the last that pass."""
    assert parse(b"[" * 64 + b"]" * 64) is not None


def test_first_float_is_pointed_at():
    """The pointer is that of RFC 6901, and of the first float in the text."""
    assert first_float(parse(b'{"x": [1, "1.5", {"a/b~c": [0, 1e0]}], "y": 2.5}')) == "/x/2/a~1b~0c/1"
    assert first_float(parse(b"1e999")) == ""
    assert first_float(parse(b'{"x": [1, true, null, "0.5"]}')) is None
