"""Atomic writing: the old file or the new one, and never anything else in the directory."""

import os
import stat

import pytest

from certify.errors import InputRejected
from certify.states import write_atomically


def test_a_file_is_created_and_replaced(tmp_path):
    """The contents are the bytes given, and no temporary file stays."""
    path = tmp_path / "out.json"
    write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    write_atomically(str(path), b"")
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_check_leaves_the_old_file(tmp_path):
    """The check sees the new bytes; if it raises, its error comes out and nothing has changed."""
    path = tmp_path / "out.json"
    path.write_bytes(b"old")
    seen = []

    def check(temporary):
        with open(temporary, "rb") as stream:
            seen.append(stream.read())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new", check=check)
    assert seen == [b"new"]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_errors_of_a_check_are_not_disguised(tmp_path):
    """A ValueError of the check is not taken for one of the path."""

    def check(temporary):
        raise ValueError("the check's own")

    with pytest.raises(ValueError, match="the check's own"):
        write_atomically(tmp_path / "out", b"new", check=check)


def test_readers_see_old_or_new(tmp_path):
    """A reader that opened the old file goes on reading it."""
    path = tmp_path / "out"
    write_atomically(path, b"old")
    with open(path, "rb") as stream:
        write_atomically(path, b"new")
        assert stream.read() == b"old"


def test_permissions(tmp_path):
    """A new file gets the usual permissions, a replaced one keeps its own."""
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(tmp_path / "new", b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_symbolic_links_are_followed(tmp_path):
    """The link stays a link, and its target gets the bytes."""
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_devices_are_written_to_not_replaced():
    """/dev/null stays a device."""
    write_atomically("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", [".", "missing/out", "a\0b", "x" * 300])
def test_impossible_places_are_refused(tmp_path, monkeypatch, name):
    """A directory, a missing directory and an impossible name are refused in one sentence."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputRejected):
        write_atomically(name, b"x")
    assert list(tmp_path.iterdir()) == []
