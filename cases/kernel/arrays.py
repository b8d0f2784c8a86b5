"""Arrays of other libraries as NumPy arrays of the same numbers. None of these libraries is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from certify.errors import InputRejected


def plain(value: Any) -> Any:
    """`value` as a NumPy array if it is an array of torch, JAX, CuPy or ml_dtypes; anything else as it is.

    Formats that NumPy lacks (bfloat16, the 8-bit ones) become float64, which holds all their numbers.

    Raises
    ------
    InputRejected : an array that its library cannot hand over, such as one on a device.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _without_extension_types(value)
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):  # torch
        tensor = value.detach().cpu()
        return np.asarray((tensor.double() if tensor.is_floating_point() else tensor).numpy())
    if hasattr(value, "__array__"):  # JAX, among others
        return _without_extension_types(np.asarray(value))
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            what = f"an array of type {type(value).__name__} cannot be read: {error}"
            raise InputRejected(what, "copy it to the memory of the host first") from error
    return value


def family_of(given: Any) -> str:
    """Whose exp, log and tanh made an array, or several in a dict or tuple: `torch` if one is a tensor, else `numpy`."""
    values = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
    return "torch" if any(type(value).__module__.partition(".")[0] == "torch" for value in values) else "numpy"


def binary64(value: Any, what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Real numbers of any array library as binary64, exactly; infinities and NaN stay. `what` names them in messages.

    Raises
    ------
    InputRejected : no real numbers, or one that binary64 cannot hold.
    """
    given = np.asarray(plain(value))
    if given.dtype.kind not in "buif":
        raise InputRejected(f"{what} has dtype {given.dtype}", "give real numbers")
    array = np.array(given, dtype=np.float64, order="C")
    with np.errstate(invalid="ignore", over="ignore"):
        back = array.astype(given.dtype)
    if not ((back == given) | ((back != back) & (given != given))).all():
        raise InputRejected(f"{what} has an entry that binary64 cannot hold", "round it to float64 first")
    return array


def _without_extension_types(array: Any) -> Any:
    # ml_dtypes register as void types of one or two bytes, with casts
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.type is not np.void:
        return array.astype(np.float64)
    return array
