"""The command `forebay`. Errors are a line, one more that says what to do next, and an exit code.

1 where it was refused or failed, 2 for a user's mistake, 3 where no broker answers or nobody knows what it did,
130 where Ctrl-C ended it.
"""

from __future__ import annotations

import os
import sys

from forebay.cli.commands import command_line
from forebay.core.errors import ForebayError, OptionError, OutcomeUnknown, Unreachable

FAILED = 1
MISTAKE = 2
UNREACHABLE = 3


def main() -> None:
    """Run the command line; known errors become one line and an exit code."""
    try:
        command_line(first_word())(prog_name="forebay")
    except ForebayError as error:
        from forebay.cli.advice import advice

        print(f"forebay: {error}", *advice(error, sys.argv[1:]), sep="\n", file=sys.stderr)
        sys.exit(exit_code(error))
    except OSError as error:  # writing the output failed: other errors are a ForebayError by now
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit
        if not isinstance(error, BrokenPipeError):  # a closed pipe is normal: its reader wanted no more
            print(f"forebay: {error}", file=sys.stderr)
        sys.exit(FAILED)


def exit_code(error: ForebayError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, OptionError):
        return MISTAKE
    return UNREACHABLE if isinstance(error, Unreachable | OutcomeUnknown) else FAILED


def first_word() -> str:
    """Return the command to run, or to complete for a shell. Only its module is imported then."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS")
    words = typed.split() if typed is not None and "_FOREBAY_COMPLETE" in os.environ else sys.argv
    return next((word for word in words[1:] if not word.startswith("-")), "")
