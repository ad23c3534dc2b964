"""How a command ends: 0 done, 1 the cluster refused or could not be reached, 2 wrong use, 130 interrupted.

Every expected failure is one sentence on stderr; anything else is ours and keeps its traceback. A reader of our output
that has seen enough (``rocketpy consume | head``) is no failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from rocketpy.cli.printing import print_line
from rocketpy.errors import ClientError, RocketpyError, single_failures

FAILED = 1
INTERRUPTED = 130
NO_ROUTE = 10005


class CommandError(RocketpyError):
    """What the user asked for does not exist or cannot be done; the text is the whole sentence."""


@contextmanager
def outcome() -> Iterator[None]:
    """Turn how the block ends into an exit status. All that is printed has left when it does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except RocketpyError as failure:
        print_line(f"rocketpy: {failure}", err=True)
        raise typer.Exit(FAILED) from None
    except BaseExceptionGroup as group:  # what several tasks raised
        _leave_for(group)
        raise


@contextmanager
def naming_topic(topic: str, name_servers: str) -> Iterator[None]:
    """Say of a topic without a route what that means."""
    try:
        yield
    except ClientError as failure:
        if failure.response_code != NO_ROUTE:
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
        _abandon_output()
        raise typer.Exit(0) from None
    print_line(f"rocketpy: {next(single_failures(group))}", err=True)
    raise typer.Exit(FAILED) from None


def _abandon_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter would complain about it at its exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
