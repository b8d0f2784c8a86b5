"""Hostile and damaged safetensors files, written byte by byte."""

import io
import json

import numpy as np
import pytest

from certify.errors import InputRejected
from certify.states import load_stream


def container(header, data=b"", *, length=None):
    """A file with this header: a dict, or text as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="F64", shape=(2,), offsets=(0, 16)):
    """The description of one tensor."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def refuse(contents, match):
    """Assert that a file is refused with this reason and its name."""
    with pytest.raises(InputRejected, match=match) as caught:
        load_stream(io.BytesIO(contents), "s.safetensors")
    assert "'s.safetensors'" in caught.value.problem


DATA = np.arange(2.0).tobytes()


def test_the_plain_file_loads():
    """The file that the others damage is a good one."""
    assert load_stream(io.BytesIO(container({"W": entry()}, DATA)), "s").tensors["W"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b'{"W":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},' * 2, "not valid"),
        (
            b'{"W":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},'
            b'"W":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}',
            "the key 'W' occurs twice",
        ),
        (b'{"W":{"dtype":"F64","shape":[2],"shape":[2],"data_offsets":[0,16]}}', "'shape' occurs twice"),
        (b'{"__metadata__":{"a":"1","a":"2"}}', "'a' occurs twice"),
        ({"__metadata__": {"a": 1}, "W": entry()}, "metadata 'a'"),
        ({"__metadata__": [], "W": entry()}, "metadata"),
        ({"W": entry(offsets=(0, 15))}, "needs 16 bytes"),
        ({"W": entry(offsets=(16, 0))}, "needs 16 bytes"),
        ({"W": entry(offsets=(8, 24))}, "starts at byte 8"),
        ({"W": entry(), "V": entry()}, "starts at byte 0 of the data, not at 16"),
        ({"W": entry(), "V": entry(offsets=(24, 40))}, "starts at byte 24"),
        ({"W": entry(), "V": entry(offsets=(16, 32))}, "truncated"),
        ({"W": entry(shape=(1,), offsets=(0, 8))}, "8 bytes that no tensor"),
        ({}, "16 bytes that no tensor"),
        ({"W": entry(dtype="F8_E4M3")}, "'W' has the unsupported type 'F8_E4M3'"),
        ({"W": entry(dtype="C64")}, "unsupported type"),
        ({"W": entry(dtype=["F64"])}, "unsupported type"),
        ({"W": entry(shape=(-2,))}, "no lists of counts"),
        ({"W": entry(shape=(True, 2))}, "no lists of counts"),
        ({"W": entry(shape=(2.0,))}, "no lists of counts"),
        ({"W": entry(offsets=(0, 16, 16))}, "no lists of counts"),
        ({"W": entry(shape=(0, 2**62, 2**62), offsets=(0, 0))}, "axes of"),
        ({"W": entry(shape=(1,) * 33 + (2,))}, "34 axes"),
        ({"W": entry(shape=(2**40,), offsets=(0, 2**43))}, "axes of"),
        ({"W": entry(offsets=(0, 10**30))}, "not valid"),
        ({"W": {**entry(), "extra": 1}}, "alone"),
        ({"W": [1]}, "alone"),
        ({"": entry()}, "cannot name a tensor"),
        ({"a\nb": entry()}, r"'a\\nb' cannot name"),
        (b"[]", "no object"),
        (b'{"W":' * 100_000, "not valid"),
        (b'{"W":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"W":NaN}', "NaN"),
        (b'{"W":\xff}', "UTF-8"),
        (b'{"\\ud800":1}', "surrogate"),
        (b'{"W":[' + b"1," * 1_000_001 + b"1]}", "more than 1000000 elements"),
    ],
)
def test_bad_headers_are_refused(header, match):
    """Each fault of a header is named."""
    refuse(container(header, DATA), match)


def test_header_lengths_are_bounded():
    """A header length beyond the file or beyond the limit is refused before anything is read or allocated."""
    refuse(container({"W": entry()}, DATA, length=2**63), "truncated")
    refuse(container(b"{" + b" " * (5 << 20) + b"}"), "header of")


def test_no_tensor_is_refused():
    """A file without tensors holds no state."""
    refuse(container({}), "no tensor")


def test_bool_bytes_are_zero_or_one():
    """Other bytes would be bools that are neither true nor false to NumPy."""
    refuse(container({"M": entry("BOOL", (2,), (0, 2))}, b"\x01\x02"), "bool entries")


def test_bfloat16_is_widened_exactly():
    """All finite bfloat16 numbers, as ml_dtypes converts them to float32."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(1 << 16, dtype=np.uint16)
    codes = codes[(codes & 0x7F80) != 0x7F80]
    contents = container({"W": entry("BF16", codes.shape, (0, codes.nbytes))}, codes.tobytes())
    found = load_stream(io.BytesIO(contents), "s").tensors["W"]
    assert found.dtype == np.float32
    assert found.tobytes() == codes.view(ml_dtypes.bfloat16).astype(np.float32).tobytes()


def test_bfloat16_infinities_are_refused():
    """0x7F80 is infinity."""
    refuse(container({"W": entry("BF16", (1,), (0, 2))}, b"\x80\x7f"), r"'W' holds inf at index \(0,\)")
