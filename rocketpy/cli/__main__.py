"""The ``rocketpy`` command. Each group of commands is a module next to this one.

Those modules import the client when they run, not when they are imported: ``rocketpy --version``, ``--help`` and a
wrong option answer at once.
"""

from __future__ import annotations

import sys

try:
    import typer

    from rocketpy import BUILD, __version__
    from rocketpy.cli.consume import consume
    from rocketpy.cli.doctor import doctor
    from rocketpy.cli.outcome import INTERRUPTED
    from rocketpy.cli.pipeline.commands import pipeline_commands
    from rocketpy.cli.produce import produce
    from rocketpy.cli.store import store_commands
    from rocketpy.cli.topic import topic_commands
except KeyboardInterrupt:  # the console script is not ours, and would print where the imports were
    sys.exit(130)

app = typer.Typer(
    name="rocketpy",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command()(produce)
app.command()(consume)
app.command()(doctor)
app.add_typer(topic_commands, name="topic")
app.add_typer(store_commands, name="store")
app.add_typer(pipeline_commands, name="pipeline")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rocketpy {__version__}, {BUILD}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and the build, and end."
    ),
) -> None:
    """Use and administer a RocketMQ cluster, and inspect the stores of its brokers.

    Exit status: 0 success, 1 the cluster refused a request or is unreachable, or a store has a defect, 2 wrong usage,
    130 interrupted.
    """


def main() -> None:
    """Run the command line."""
    if BUILD.fault:
        print(f"rocketpy: {BUILD.fault}", file=sys.stderr)
        sys.exit(2)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
