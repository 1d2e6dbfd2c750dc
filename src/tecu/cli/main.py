"""``tecu``: the group of commands, and what exit codes mean.

0 all done, 1 bad arguments, 2 some input failed (the rest was done), 3 an optional part is not installed, 5 a file
could not be written, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from tecu.atomic import REASONS, escaped
from tecu.extras import how_to_get

BAD_ARGUMENTS, INPUT_FAILED, PART_MISSING, UNWRITABLE, INTERRUPTED = 1, 2, 3, 5, 130

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # its message has many lines; older versions have none

# The summaries stand here so that `tecu --help` need not import the commands.
COMMANDS = {
    "enhance": "Brighten dark photos and videos.",
    "score": "Measure photos: NIQE, and PSNR, SSIM, LOE against a reference.",
    "compare": "Compare photos, methods or saved runs on one page.",
    "train": "Train a network of your own from clean photos.",
    "dictionary": "Learn sparse dictionaries and code data with them.",
    "reproduce": "Draw the paper's tables and figures.",
    "serve": "Open the local web page.",
}


class Unwritable(click.ClickException):
    """Ends a command with a sentence and the exit code for files that cannot be written."""


class LazyGroup(click.Group):
    """Commands found by name in ``tecu.cli.<name>``; one whose module is not there is not listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands that are installed."""
        return [name for name in COMMANDS if importlib.util.find_spec(f"tecu.cli.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called ``cmd_name``, or answer ``None`` if there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"tecu.cli.{cmd_name}"), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"tecu.cli.{cmd_name}.{cmd_name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tecu", message="tecu %(version)s")
@click.pass_context
def tecu(ctx: click.Context) -> None:
    """Multi-block optimisation with any solver or network inside a block, and what it is good for.

    Exit codes: 0 all done, 1 bad arguments, 2 some input failed (the rest was done), 3 an optional part is not
    installed, 5 a file could not be written, 130 interrupted.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def report_problem() -> str | None:
    """A sentence if the extra ``report`` is not installed: found out before hours of work, not after."""
    missing = [name for name in ("matplotlib", "jinja2") if not is_installed(name)]
    return f"a report needs {' and '.join(missing)}: {how_to_get('report')}" if missing else None


def is_installed(module: str) -> bool:
    """Whether a module is there; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it is in sys.modules as None: someone has shut it out
        return False


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # SIGTERM cleans up like Ctrl-C


def _let_go_of_output() -> None:
    """Python would complain once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_streams() -> None:
    """What is said on a standard error that was closed from the start goes nowhere.

    No other file may get the number of a closed stream: libraries and child processes would write into it.
    ``sys.stdin`` and ``sys.stdout`` stay away, so that a picture that was to go there is missed.
    """
    with contextlib.suppress(OSError):  # there is no such device
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (as long as the process lives)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    _replace_closed_streams()
    with contextlib.suppress(ValueError):  # not in the main thread: someone else's signals
        signal.signal(signal.SIGTERM, _terminated)
    try:
        result = tecu.main(None if arguments is None else list(arguments), prog_name="tecu", standalone_mode=False)
        if sys.stdout is not None:  # it was closed from the start: nobody wants to know
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        if not isinstance(error, HELP):
            vars(error)["message"] = escaped(error.message)  # click repeats names as they were given
        error.show()
        return UNWRITABLE if isinstance(error, click.FileError | Unwritable) else BAD_ARGUMENTS
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except SystemExit:  # in this mode click leaves only when the reader of its output has gone
        return UNWRITABLE
    except BrokenPipeError:
        _let_go_of_output()
        return UNWRITABLE
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        click.echo(f"the output could not be written: {REASONS[error.errno]}", err=True)
        _let_go_of_output()
        return UNWRITABLE


if __name__ == "__main__":
    sys.exit(main())
