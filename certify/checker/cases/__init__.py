"""The checks of the cases: each in the folder `checker` of its case, installed here under the name of the case.

Such a module has

    CHECKS             a dict from the start of an id, KIND/NAME or KIND, to a function (claim, context) -> Finding
    require_subject    a function (context) -> None that raises Rejected for tensors or controls that are no state of the case

and is held to what the checker is held to: it imports the standard library, python-flint and `certify.checker`, and trusts
nothing that a report says. A case that is installed from elsewhere names its module in the entry points `certify.checkers`.
"""

from __future__ import annotations

import re
from importlib import import_module, util
from typing import Any


def checks_of(case: Any) -> Any:
    """The module of the case of that name, None if no such case is installed."""
    if not isinstance(case, str) or re.fullmatch("[a-z][a-z0-9_]{0,39}", case) is None:
        return None
    name = f"{__name__}.{case}"
    if util.find_spec(name) is not None:
        return import_module(name)
    from importlib import metadata

    return next((entry.load() for entry in metadata.entry_points(group="certify.checkers", name=case)), None)
