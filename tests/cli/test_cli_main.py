"""The group of commands: help, exit codes that belong to no command, and how output ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from certify.cli.main import COMMANDS, main
from command_lines import complaint, process

from certify.errors import CertifyError, Undecided
from certify.version import __version__


def fail_with(monkeypatch, error):
    """Let every certification raise `error`."""

    def certify(*args):
        raise error

    monkeypatch.setattr("certify.cases.polyprox.case.PolyProx.certify", certify)


def test_help_lists_every_command(certify):
    """In the order of the table, each with a short description that is not cut off."""
    result = certify("--help")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.split("Commands:")[1].splitlines()[1 : len(COMMANDS) + 1]]
    assert listed == list(COMMANDS)
    assert "..." not in result.stdout.split("Commands:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(certify, name):
    """-h is --help; an example to copy; no line beyond 80 columns."""
    result = certify(name, "--help")
    assert result.exit_code == 0
    assert result.stdout == certify(name, "-h").stdout
    assert f"  certify {name}" in result.stdout.split("Examples:")[1]
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_help_imports_little():
    """No arithmetic, tables or validators for a help page; NumPy only as far as `import certify` needs it."""
    program = (
        "import sys, certify\n"
        "before = set(sys.modules)\n"
        "from certify.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*before, file=sys.stderr)\n"
        "print(*(set(sys.modules) - before), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    package, added = (set(line.split()) for line in done.stderr.splitlines())
    assert not (package | added) & {"rich", "flint", "scipy", "jsonschema", "safetensors", "pyarrow", "matplotlib"}
    assert not added & {"numpy", "certify.certificate", "certify.cases", "certify.states"}
    assert {"certify.cli.run", "certify.cli.updates"} <= added


def test_version(certify):
    """--version prints the one version."""
    result = certify("--version")
    assert (result.exit_code, result.stdout) == (0, f"certify {__version__}\n")


def test_no_command_shows_the_help(certify):
    """Exit code 2, and the help on standard error, so that a pipe stays clean."""
    result = certify()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["rum"], ["'rum'", "certify --help"]),
        (["--verbose"], ["--verbose", "certify --help"]),
        (["run"], ["missing argument 'STATE'", "certify run --help"]),
        (["show"], ["missing argument 'REPORT'", "certify show --help"]),
        (["updates"], ["missing argument 'STATE'", "certify updates --help"]),
        (["solve", "data.csv"], ["missing option", "--output", "certify solve --help"]),
        (["schema", "more"], ["more", "certify schema --help"]),
    ],
)
def test_wrong_usage(certify, args, words):
    """Exit code 2, and one sentence that names the culprit and the help page."""
    sentence = complaint(certify(*args), 2)
    assert all(word in sentence for word in words), sentence


def test_an_internal_error(certify, state_file, monkeypatch):
    """Exit code 70, never 1: one line that asks to report, without a traceback."""
    fail_with(monkeypatch, RuntimeError("a fault\n\x1b[31m"))
    sentence = complaint(certify("run", state_file()), 70)
    assert "internal error (RuntimeError: a fault \\x1b[31m)" in sentence
    assert "please report" in sentence


def test_an_internal_error_to_be_debugged(certify, state_file, monkeypatch):
    """CERTIFY_DEBUG=1 adds the traceback; the last line and the exit code stay."""
    fail_with(monkeypatch, RuntimeError("a fault"))
    result = certify("run", state_file(), env={"CERTIFY_DEBUG": "1"})
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("certify: error: internal error")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Undecided("two enclosures overlap", "use a finer format"), 1),
        (CertifyError("it read back differently", "report this as a bug"), 70),
        (MemoryError(), 70),
        (RecursionError("too deep"), 70),
        (OSError(28, "No space left on device"), 70),
    ],
)
def test_errors_that_a_run_raises(certify, state_file, monkeypatch, error, code):
    """The exit code is that of the exception's class, and 70 for those of no class of ours."""
    fail_with(monkeypatch, error)
    complaint(certify("run", state_file()), code)


def test_an_end_of_file_is_no_interrupt(certify, state_file, monkeypatch):
    """Click takes EOFError for Ctrl-D at a prompt; here it is a fault, exit code 70."""
    fail_with(monkeypatch, EOFError("the end"))
    result = certify("run", state_file())
    assert result.exit_code == 70
    assert "internal error (EOFError: the end)" in result.stderr


def test_an_interrupt(certify, state_file, monkeypatch):
    """Ctrl-C: exit code 130, no traceback, no report."""
    fail_with(monkeypatch, KeyboardInterrupt())
    result = certify("run", state_file(), "-o", "report.json")
    assert result.exit_code == 130
    assert result.stderr.split() == ["certify:", "interrupted"]
    assert not os.path.exists("report.json")


@pytest.mark.parametrize("args", [["schema"], ["--help"], ["run", "--help"], ["env"]])
def test_a_closed_pipe_is_quiet(args):
    """The reader goes away first: no message, and the exit code of a process that SIGPIPE ended."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "certify.cli.main", *args], stdout=write, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("args", [["schema"], ["run", "state.npz", "--methods", "none"]])
def test_a_full_disk_is_said(state_file, tmp_path, args):
    """Standard output that cannot be written is a refusal with one sentence, not a silent loss."""
    state_file()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "certify.cli.main", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("certify: error: cannot write standard output: No space left on device; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("closing", "args", "code"), [("2>&-", "run state.npz --methods none -o r.json", 0), (">&-", "schema", 3)]
)
def test_closed_streams(state_file, tmp_path, closing, args, code):
    """Without standard error a run works, and says nothing anywhere; without standard output there is no place."""
    state_file()
    command = f"{sys.executable} -m certify.cli.main {args} {closing}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (code, b"")
    assert (b"standard output is closed" in done.stderr) == (code == 3)


@pytest.mark.parametrize("option", ["--state=0", "--claims"])
def test_a_pipe_that_closes_on_a_table(certify, trajectory_file, tmp_path, option):
    """Tables, too, end quietly when their reader goes away."""
    assert certify("run", trajectory_file(2), "--methods", "none", "-o", "report.json").exit_code == 0
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "certify.cli.main", "show", "report.json", option]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_installed_command():
    """The entry point is the group itself, under the same name and with the same exit codes."""
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="certify")
    assert script.load() is main
    assert process("show", "absent.json").returncode == 3
