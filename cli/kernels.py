"""A user's kernel for the command line: MODULE:FUNCTION, and its arguments from a state file."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from certify.cli.streams import one_line

from certify.errors import CertifyError, InputRejected
from certify.states import quoted


def kernel_named(name: str) -> Callable[..., Any]:
    """The function of a name such as `models.mlp:forward` or `models/mlp.py:forward`.

    The current directory comes first on the path of imports, for a file its own directory. What the function raises when it
    runs is reported with its line.

    Raises
    ------
    InputRejected : no such name, module or function, or a module that cannot be imported.
    """
    where, colon, attribute = name.rpartition(":")
    if not (colon and where and attribute):
        raise InputRejected(f"{quoted(name)} names no function", "write MODULE:FUNCTION or path/to/file.py:FUNCTION")
    found: Any = _module(where)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputRejected(f"{quoted(where)} has no {quoted(attribute)}", "name a function that it defines")
        found = getattr(found, part)
    if not callable(found):
        raise InputRejected(f"{quoted(name)} is a {type(found).__name__}", "name a function")
    return _explained(found)


def arguments(kernel: Callable[..., Any], tensors: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The tensors that the kernel takes, by the names of its parameters; what it has defaults for may be missing.

    Raises
    ------
    InputRejected : the file has no tensor for a parameter.
    """
    try:
        parameters = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):  # of a built-in function
        return dict(tensors)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(tensors)
    wanted = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for p in wanted:
        if p.default is p.empty and p.name not in tensors:
            held = ", ".join(quoted(tensor) for tensor in list(tensors)[:8])
            raise InputRejected(
                f"{quoted(file)} has no tensor for the parameter {quoted(p.name)}, only {held}", "save it"
            )
    return {p.name: tensors[p.name] for p in wanted if p.name in tensors}


def known_library(name: str | None) -> str | None:
    """The name of a math library, or None. Raises click.BadParameter if there is no such library."""
    import click

    from certify.arithmetic import BINARY64
    from certify.arithmetic.libm import library

    try:
        if name is not None:
            library(name, [BINARY64])
    except InputRejected as error:
        raise click.BadParameter(str(error), param_hint="--libm") from error
    return name


def _module(where: str) -> ModuleType:
    is_file = where.endswith(".py")
    if is_file and not os.path.isfile(where):
        raise InputRejected(f"there is no file {quoted(where)}", "check the path")
    folder = os.path.dirname(os.path.abspath(where)) if is_file else os.getcwd()
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    try:
        return _from_file(where) if is_file else importlib.import_module(where)
    except ModuleNotFoundError as error:
        missing = error.name or where
        if missing == where or where.startswith(f"{missing}."):
            raise InputRejected(
                f"there is no module {quoted(where)}", "name one, or a file that ends in .py"
            ) from error
        raise InputRejected(
            f"{quoted(where)} imports {quoted(missing)}, which is not installed", "install it"
        ) from error
    except CertifyError:
        raise
    except (Exception, SystemExit) as error:  # user code: whatever it raises
        raise InputRejected(f"importing {quoted(where)} fails{_failure(error)}", "run it with Python first") from error


def _from_file(path: str) -> ModuleType:
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)  # dataclasses and pickles look their module up
    spec.loader.exec_module(module)
    return module


def _explained(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(kernel)
    def explained(*args: Any, **kwargs: Any) -> Any:
        try:
            return kernel(*args, **kwargs)
        except CertifyError:
            raise
        except Exception as error:  # user code: whatever it raises
            if isinstance(error.__cause__, CertifyError):  # NumPy's word for a refusal, which names the remedy
                raise error.__cause__ from None
            name = getattr(kernel, "__name__", type(kernel).__name__)
            raise InputRejected(f"the kernel {name} fails{_failure(error)}", "run it on plain arrays first") from error

    return explained


def _failure(error: BaseException) -> str:
    """Where and how, in one clause: the last line that is not this package's own nor NumPy's."""
    import numpy as np

    import certify

    packages = [os.path.dirname(os.path.abspath(file)) for file in (__file__, certify.__file__, np.__file__)]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    users = [f for f in frames if not any(os.path.abspath(f.filename).startswith(folder) for folder in packages)]
    at = f" at {os.path.basename(users[-1].filename)}:{users[-1].lineno}" if users else ""
    what = one_line(str(error))[:200]
    return f"{at}: {type(error).__name__}{f': {what}' if what else ''}"
