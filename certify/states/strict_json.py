"""JSON from a file nobody vouches for: one meaning for every text, and bounded memory whatever it holds.

Python's parser keeps the last of two equal keys, reads NaN, and builds an integer of any length. Each of those
lets two readers disagree about one file, so each is refused here.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from certify.errors import InputRejected
from certify.states.quoting import quoted

MAX_DEPTH = 64
# A container or an element costs Python about 60 bytes, so this holds a parsed text to tens of megabytes.
MAX_ITEMS = 1_000_000
# Any integer of 64 bits has at most 20 characters; larger ones belong in strings.
MAX_INTEGER_LENGTH = 20


class _RefusedError(ValueError):
    """A text that Python's parser would accept and this one does not."""


def parse_json(data: bytes, name: str, *, what: str, remedy: str) -> Any:
    """Parse UTF-8 JSON strictly.

    Parameters
    ----------
    data : the text; the caller has bounded its length.
    name : the file as the user gave it, for the message.
    what : what the text is, for the message ("report", "safetensors header").
    remedy : what to do about a text that is refused.

    Raises
    ------
    InputRejected : bytes that are not UTF-8, a syntax error, a duplicate key, NaN or an infinity, an integer of
        more than 20 characters, a lone surrogate, nesting deeper than 64 or more than a million elements.
    """
    try:
        if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_ITEMS:
            raise _RefusedError(f"it has more than {MAX_ITEMS} elements")
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_int=_integer,
        )
        _require_plain(value)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno} column {error.colno}"
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except RecursionError:
        reason = f"it is nested deeper than {MAX_DEPTH} levels"
    except _RefusedError as error:
        reason = str(error)
    else:
        return value
    raise InputRejected(f"the {what} of {quoted(name)} is not valid: {reason}", remedy)


def first_float(value: Any) -> str | None:
    """Return the JSON pointer of the first float in a parsed value, or None if it holds none."""
    stack: list[tuple[Any, tuple[str, ...]]] = [(value, ())]
    while stack:
        item, path = stack.pop()
        if isinstance(item, float):
            return pointer(path)
        # Reversed, so that the stack gives the members in the order of the text.
        if isinstance(item, dict):
            stack.extend((v, (*path, k)) for k, v in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((item[i], (*path, str(i))) for i in reversed(range(len(item))))
    return None


def pointer(path: tuple[str | int, ...]) -> str:
    """Return the JSON pointer (RFC 6901) of a path of keys and indices."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _RefusedError(f"the key {quoted(key)} occurs twice in one object")
        result[key] = value
    return result


def _constant(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_LENGTH:
        raise _RefusedError(f"an integer has {len(text)} characters")
    return int(text)


def _require_plain(value: Any) -> None:
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            _require_text(item)
        elif isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise _RefusedError(f"it is nested deeper than {MAX_DEPTH} levels")
            if isinstance(item, dict):
                for key in item:
                    _require_text(key)
                stack.extend((v, depth + 1) for v in item.values())
            else:
                stack.extend((v, depth + 1) for v in item)


def _require_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _RefusedError(f"the string {quoted(text)} has a lone surrogate") from error
