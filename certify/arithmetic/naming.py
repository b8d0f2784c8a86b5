"""Formats by name: those of the list, their variants, and a user's own."""

from __future__ import annotations

import re
from dataclasses import replace

from certify.arithmetic.formats import FORMATS, Format, Overflow
from certify.errors import InputRejected

_ALIASES = {
    "binary16": "float16",
    "binary32": "float32",
    "binary64": "float64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
_OWN = re.compile(r"p=(\d{1,3}),emin=(-?\d{1,5}),emax=(\d{1,5})")
_OPTIONS = ("ftz", "saturate")
_REMEDY = f"use one of {', '.join(FORMATS)}, or p=11,emin=-14,emax=15; each may end in ,ftz or ,saturate"


def format_named(name: str) -> Format:
    """The format of that name.

    A name is one of `FORMATS` (IEEE's names binary16 ... and those of ml-dtypes are accepted too) or
    `p=P,emin=E,emax=F`, a format of P significant bits with subnormals and infinities; then, optionally, `,ftz`
    (subnormal results become zero) and `,saturate` (results beyond the largest number become it). The format's own `name`
    is canonical: equal formats have equal names.

    Raises
    ------
    InputRejected : the name is not of this form, or the format cannot be emulated in binary64.
    """
    base, options = name, set()
    while base.endswith(tuple(f",{option}" for option in _OPTIONS)):
        base, _, option = base.rpartition(",")
        if option in options:
            raise InputRejected(f"the format {name!r} says {option} twice", _REMEDY)
        options.add(option)
    format = _base(base, name)
    if "ftz" in options:
        format = replace(format, flush=True)
    if "saturate" in options:
        format = replace(format, overflow=Overflow.SATURATE)
    return replace(format, name=",".join([format.name, *(o for o in _OPTIONS if o in options)])) if options else format


def _base(base: str, name: str) -> Format:
    known = FORMATS.get(_ALIASES.get(base, base))
    if known is not None:
        return known
    match = _OWN.fullmatch(base)
    if match is None:
        raise InputRejected(f"there is no format {name!r}", _REMEDY)
    precision, emin, emax = (int(group) for group in match.groups())
    own = Format(f"p={precision},emin={emin},emax={emax}", precision, emax, emin)
    for format in FORMATS.values():
        if replace(own, name=format.name) == format:
            return format
    return own
