"""`certify env`: versions, and whether this machine's arithmetic is what certificates assume."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import click
from certify.cli.streams import say, write_output

PACKAGES = (
    "numpy",
    "scipy",
    "python-flint",
    "crival",
    "safetensors",
    "jsonschema",
    "click",
    "rich",
    "numba",
    "pyarrow",
    "matplotlib",
)


@click.command(
    epilog="""\b
Examples:
  certify env
  certify env | grep subnormals

Exit code: 1 if the arithmetic fails its self-test, and then no certificate
made on this machine can be trusted.""",
    short_help="Print versions and the self-test of the arithmetic.",
)
def command() -> int:
    """Print versions and the self-test of the arithmetic; for bug reports, too."""
    from certify.arithmetic.selftest import selftest
    from certify.rounding import compiled
    from certify.version import __version__

    tests = selftest()
    loops = compiled.selftest()
    tests["compiled_loops"] = "not in use" if loops is None else loops
    lines = [
        ("certify", __version__),
        ("python", f"{platform.python_version()} ({sys.implementation.name})"),
        ("platform", f"{platform.system()} {platform.machine()}"),
        *((name, _version(name)) for name in PACKAGES),
        *((name, _result(value)) for name, value in tests.items()),
    ]
    write_output("".join(f"{name:<22}{value}\n" for name, value in lines).encode())
    failed = [name for name, value in tests.items() if value is False]
    if failed:
        say(
            f"certify: the arithmetic of this machine fails {', '.join(failed)}; look for a flush-to-zero or"
            " fast-math setting of a library that this process has loaded"
        )
    return 1 if failed else 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _result(value: str | bool) -> str:
    if isinstance(value, bool):
        return "passed" if value else "FAILED"
    return value
