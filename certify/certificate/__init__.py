"""Certificates: exact numbers as text, claims, and the report file that carries them."""

from certify.certificate.claims import Claim, Verdict, overall
from certify.certificate.numbers import decimal_up, parse, require_number, to_hex, to_text
from certify.certificate.producer import producer
from certify.certificate.report import SCHEMA_ID, Report, decode, encode, read, schema, write

__all__ = [
    "SCHEMA_ID",
    "Claim",
    "Report",
    "Verdict",
    "decimal_up",
    "decode",
    "encode",
    "overall",
    "parse",
    "producer",
    "read",
    "require_number",
    "schema",
    "to_hex",
    "to_text",
    "write",
]
