"""Exit status of a command: 0 success, 1 refused or unreachable, 2 wrong usage, 130 interrupted.

Every expected failure is one sentence on stderr; any other exception is a bug of ours and keeps its traceback. A closed
output pipe (``rocketpy consume | head``) is not a failure.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import typer

from rocketpy.cli.printing import print_line
from rocketpy.errors import ClientError, ClientErrorCode, RocketpyError, single_failures
from rocketpy.standard_output import abandon_output

Result = TypeVar("Result")

FAILED = 1
INTERRUPTED = 130


class CommandError(RocketpyError):
    """The request of the user names something missing or impossible; the text is the whole sentence."""


@contextmanager
def outcome() -> Iterator[None]:
    """Convert the outcome of the block into an exit status, after flushing the output."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_output()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except RocketpyError as failure:
        print_line(f"rocketpy: {failure}", err=True)
        raise typer.Exit(FAILED) from None
    except BaseExceptionGroup as group:  # what several tasks raised
        _leave_for(group)
        raise


def run_async(command: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Run a command on Trio. Control-C reaches it where it waits.

    In the middle of another task, where Python would raise it, it would end a connection and look like a broker's
    failure.
    """
    import trio

    return trio.run(command, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)


@contextmanager
def naming_topic(topic: str, name_servers: str) -> Iterator[None]:
    """Explain the error for a topic without a route."""
    try:
        yield
    except ClientError as failure:
        if failure.response_code != ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION:
            raise
        raise CommandError(
            f"no topic named {topic!r} at {name_servers} ('rocketpy topic list' shows what is there): {failure}"
        ) from failure


def _leave_for(group: BaseExceptionGroup[BaseException]) -> None:
    """Exit for the most urgent of the expected failures in ``group``; return when there is one that is not expected."""
    _, unexpected = group.split((RocketpyError, KeyboardInterrupt, BrokenPipeError))
    if unexpected is not None:
        return
    if group.subgroup(KeyboardInterrupt) is not None:
        raise typer.Exit(INTERRUPTED) from None
    if group.subgroup(BrokenPipeError) is not None:
        abandon_output()
        raise typer.Exit(0) from None
    print_line(f"rocketpy: {next(single_failures(group))}", err=True)
    raise typer.Exit(FAILED) from None
