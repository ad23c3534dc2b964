"""The ``rocketpy`` command. Families of commands are modules beside this one; here is what they share at the top.

Exit status: 0 done, 1 the cluster refused or could not be reached, 2 wrong use. Errors are one sentence on stderr.
"""

from __future__ import annotations

import os
import sys

import typer

from rocketpy import __version__
from rocketpy.cli.consume import consume
from rocketpy.cli.produce import produce
from rocketpy.cli.topic import topic_commands
from rocketpy.errors import RocketpyError

app = typer.Typer(
    name="rocketpy",
    help="Talk to a RocketMQ cluster, rocketpy's or Java's.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(produce)
app.command()(consume)
app.add_typer(topic_commands, name="topic")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rocketpy {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Talk to a RocketMQ cluster, rocketpy's or Java's."""


def main() -> None:
    """Run the command line; every expected failure is a sentence and a status, not a traceback."""
    try:
        app()
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseExceptionGroup as group:
        _fail(group)
    except RocketpyError as failure:
        print(f"rocketpy: {failure}", file=sys.stderr)
        sys.exit(1)


def _fail(group: BaseExceptionGroup[BaseException]) -> None:
    """Unwrap what several tasks raised: expected failures are printed, anything else is ours and keeps its trace."""
    expected, rest = group.split(RocketpyError)
    if expected is not None:
        first: BaseException = expected
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        print(f"rocketpy: {first}", file=sys.stderr)
    if rest is None:
        sys.exit(1)
    interrupted, rest = rest.split(KeyboardInterrupt)
    if interrupted is not None and rest is None:
        sys.exit(130)
    broken, rest = rest.split(BrokenPipeError) if rest is not None else (None, None)
    if broken is not None and rest is None:
        raise BrokenPipeError
    raise group


if __name__ == "__main__":
    main()
