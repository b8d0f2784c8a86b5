"""The `certify` command: finds its subcommands, and turns what they return or raise into exit codes.

0 certified; 1 ran, but not certified; 2 usage; 3 input rejected; 4 refuted; 70 a fault of certify itself;
130 interrupted; 141 the reader of a pipe went away. Nothing else in the package ends the process.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn, cast

import click
from certify.cli.streams import abandon_output, flush_output, one_line, say

from certify.errors import CertifyError
from certify.version import __version__

COMMANDS = (
    *("demo", "run", "trace", "tolerance", "tune", "check", "gate", "updates", "solve"),
    *("show", "html", "schema", "env"),
)
"""In the order of the help page; `certify.cli.NAME` holds each as `command`."""

#: A linear algebra library that splits its work over threads adds in another order, and a report would depend on the
#: number of cores. Set before NumPy is imported.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

USAGE, INTERNAL, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141


class Certify(click.Group):
    """The group of commands. Each is imported when it is named or listed, and returns its exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order to show."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, import_module(f"certify.cli.{cmd_name}").command)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command line and exit. Never returns, and never lets an exception out."""
        os.environ.update(dict.fromkeys(THREADS, "1"))
        run = super().main
        sys.exit(_exit_code(lambda: run(*args, **{**kwargs, "prog_name": "certify", "standalone_mode": False})))


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()
        flush_output()
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        return USAGE
    except click.ClickException as error:
        say(f"certify: error: {_usage(error)}")
        return USAGE
    except CertifyError as error:
        say(f"certify: error: {one_line(str(error))}")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # click takes it for Ctrl-D at a prompt, and here are no prompts
            return _internal(error.__cause__)
        say("certify: interrupted")
        return INTERRUPTED
    except (SystemExit, BrokenPipeError):  # not standalone, click exits by itself for a closed pipe only
        abandon_output()
        return BROKEN_PIPE
    except Exception as error:
        return _internal(error)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    """Click's complaint as one sentence: culprit, then remedy."""
    message = one_line(error.format_message()).rstrip(".?").replace(". Did you mean", ", did you mean")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see `{context.command_path if context else 'certify'} --help`"


def _internal(error: BaseException) -> int:
    if os.environ.get("CERTIFY_DEBUG") == "1":
        say("".join(traceback.format_exception(error)).rstrip())
    what = one_line(f"{type(error).__name__}: {error}")[:300]
    say(
        f"certify: error: internal error ({what}); please report this with the command you ran"
        " and what CERTIFY_DEBUG=1 adds"
    )
    return INTERNAL


@click.group(
    cls=Certify,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Exit codes: 0 certified, 1 ran but not certified, 2 usage, 3 input rejected,
4 refuted, 70 internal error.
\b
Start here:  certify demo""",
)
@click.version_option(__version__, prog_name="certify", message="%(prog)s %(version)s")
def main() -> None:
    """Prove how wrong a numerical kernel can be: certified rounding errors and ranges in low precision."""


if __name__ == "__main__":
    main()
