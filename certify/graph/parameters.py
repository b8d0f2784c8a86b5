"""Whether a kernel can be called with the inputs it is given, asked before it is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from certify.errors import InputRejected

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def require_parameters(kernel: Any, inputs: Any) -> None:
    """Refuse a kernel that is no function, and inputs that are not its parameters by their names.

    Raises
    ------
    InputRejected : names the input that is missing, or one too many.
    """
    if not callable(kernel):
        raise InputRejected(
            f"the kernel is no function: {str(kernel)[:80]!r}", "give the function itself, not its name"
        )
    if not isinstance(inputs, Mapping):
        raise InputRejected("the inputs of the kernel are no mapping", "give a dict from parameter names to arrays")
    unnamed = [key for key in inputs if not isinstance(key, str)]
    if unnamed:
        raise InputRejected(f"an input of the kernel is named {unnamed[0]!r}", "name inputs by strings")
    try:
        signature = inspect.signature(kernel)
    except (TypeError, ValueError):  # of some callables nothing is known
        return
    parameters = signature.parameters
    named = [name for name, p in parameters.items() if p.kind in _NAMED]
    missing = [name for name in named if name not in inputs and parameters[name].default is inspect.Parameter.empty]
    if missing:
        raise InputRejected(
            f"the input {missing[0]} of the kernel is missing: its parameters are {signature}",
            "give a value for each parameter by its name",
        )
    takes_others = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in inputs if name not in named]
    if unknown and not takes_others:
        raise InputRejected(
            f"the kernel has no parameter {unknown[0]}: its parameters are {signature}",
            f"leave the input {unknown[0]} out, or name it as the kernel does",
        )
    try:
        signature.bind(**inputs)
    except TypeError as error:
        raise InputRejected(
            f"the inputs {', '.join(inputs) or '(none)'} do not fit the kernel's parameters {signature}: {error}",
            "write the kernel so that it takes each of them by its name",
        ) from error
