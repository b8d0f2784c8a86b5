"""Writing a file so that a reader, or a crash, sees either the old bytes or all of the new ones."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable

from certify.errors import InputRejected
from certify.states.quoting import quoted


def write_atomically(path: str | os.PathLike[str], data: bytes, *, check: Callable[[str], None] | None = None) -> None:
    """Write `data` to `path`: a temporary file in the same directory, flushed to disk, then renamed over it.

    A symbolic link is followed, and an existing file keeps its permissions. A device or a pipe (`/dev/null`)
    cannot be replaced by a rename and is written to directly, without `check`.

    Parameters
    ----------
    path : the file to create or replace.
    data : its whole contents.
    check : called with the path of the temporary file before the rename; if it raises, `path` is untouched.

    Raises
    ------
    InputRejected : the file cannot be written; the message carries the reason of the operating system.
    """
    name = os.fspath(path)
    try:
        target, mode = _resolve(name)
        if mode is not None and stat.S_ISDIR(mode):
            raise InputRejected(f"{quoted(name)} is a directory", "name a file inside it")
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as stream:
                stream.write(data)
            return
        _replace(target, data, None if mode is None else stat.S_IMODE(mode), check)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputRejected(f"cannot write {quoted(name)}: {reason}", "choose a writable place") from error


def _resolve(name: str) -> tuple[str, int | None]:
    """Follow symbolic links; return the final path and its mode, None where nothing is there yet."""
    try:
        target = os.path.realpath(name)
        return target, os.stat(target).st_mode
    except FileNotFoundError:
        return target, None
    except ValueError as error:  # a null character
        raise InputRejected(f"{quoted(name)} is not a possible file name", "choose another name") from error


def _replace(target: str, data: bytes, mode: int | None, check: Callable[[str], None] | None) -> None:
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".certify-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # 0o666 less the umask, as open() would: tempfile's 0o600 would make reports unreadable to colleagues.
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        if check is not None:
            check(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_directory(directory)


def _flush_directory(directory: str) -> None:
    """Make the rename itself durable, where the system lets a directory be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
