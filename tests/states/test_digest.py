"""Digests depend on the bits and on nothing else."""

import hashlib

import numpy as np
import pytest

from certify.errors import InputRejected
from certify.states import digest


def test_digest_of_known_bytes():
    """1.0 and 2.0 in binary64, little-endian, by hand: 3f f0 and 40 00 at the top of eight bytes."""
    contents = bytes.fromhex("000000000000f03f" + "0000000000000040")
    expected = {"sha256": hashlib.sha256(contents).hexdigest(), "dtype": "float64", "shape": [1, 2]}
    assert digest(np.array([[1.0, 2.0]])) == expected


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "?"])
def test_layout_and_byte_order_do_not_show(dtype):
    """Fortran order, strides and big-endian storage give the digest of the plain array."""
    plain = np.arange(12).reshape(3, 4).astype(dtype)
    doubled = np.repeat(plain, 2, axis=0)
    for other in (np.asfortranarray(plain), doubled[::2], plain.astype(plain.dtype.newbyteorder(">"))):
        assert digest(other) == digest(plain)


def test_different_contents_differ():
    """One bit (the sign of zero), the shape and the type each show."""
    assert digest(np.array([0.0]))["sha256"] != digest(np.array([-0.0]))["sha256"]
    assert digest(np.zeros((2, 3))) != digest(np.zeros((3, 2)))
    assert digest(np.zeros(2)) != digest(np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_scalars_and_empty_arrays(shape):
    """Zero axes and zero entries have digests that name their shape."""
    found = digest(np.zeros(shape))
    assert found["shape"] == list(shape)
    assert found["sha256"] == hashlib.sha256(bytes(0 if 0 in shape else 8)).hexdigest()


def test_objects_have_no_digest():
    """The bytes of an object array are addresses."""
    with pytest.raises(InputRejected, match="no digest"):
        digest(np.array([None]))
