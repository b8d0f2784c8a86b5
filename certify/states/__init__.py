"""Saved tensors: reading and writing them without trusting the file, and digests that name their contents.

Nothing here knows a case: which tensors a state needs, and what they must satisfy, is checked by the case.
"""

from certify.states.atomic import write_atomically
from certify.states.digest import Digest, digest
from certify.states.files import Saved, load, load_stream, save
from certify.states.quoting import quoted
from certify.states.strict_json import first_float, parse_json

__all__ = [
    "Digest",
    "Saved",
    "digest",
    "first_float",
    "load",
    "load_stream",
    "parse_json",
    "quoted",
    "save",
    "write_atomically",
]
