"""The star-graph case in the checker: every claim is proved again from the state, by formulas of its own."""

from .circuit_claims import CHECKS as _CIRCUIT
from .decoded import CHECKS as _DECODED
from .exact_claims import CHECKS as _EXACT
from .flow import CHECKS as _FLOW
from .setting import require_subject
from .stored import CHECKS as _STORED

CHECKS = {**_CIRCUIT, **_EXACT, **_FLOW, **_STORED, **_DECODED}

__all__ = ["CHECKS", "require_subject"]
