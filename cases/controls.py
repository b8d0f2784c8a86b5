"""The numbers of a saved state that are no arrays: metadata that are exact number strings."""

from __future__ import annotations

from fractions import Fraction

from certify.certificate import parse
from certify.errors import InputRejected
from certify.states import Saved, quoted


def control(saved: Saved, name: str) -> Fraction:
    """The exact value of a control.

    Raises
    ------
    InputRejected : it is missing, or no exact number string such as 3/5.
    """
    text = saved.metadata.get(name)
    if text is None:
        raise InputRejected(f"the state has no control {name}", f"save the metadata {name}, a number such as 3/5")
    try:
        return parse(text)
    except InputRejected as error:
        raise InputRejected(
            f"the control {name} is {quoted(text)}, no exact number", "write it like 3/5 in lowest terms, or 0x1.8p+1"
        ) from error
