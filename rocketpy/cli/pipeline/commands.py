"""``rocketpy pipeline``: the pipelines of :mod:`rocketpy.spark.pipelines` as commands, one module each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from rocketpy.cli.pipeline.archive import archive
from rocketpy.cli.pipeline.audit import audit
from rocketpy.cli.pipeline.replay import replay
from rocketpy.cli.pipeline.statistics import statistics
from rocketpy.cli.pipeline.trace import trace

PIPELINES: Mapping[str, Callable[..., None]] = {
    "archive": archive,
    "audit": audit,
    "replay": replay,
    "statistics": statistics,
    "trace": trace,
}
"""Each pipeline by its name. The parameters of the function are its options."""

pipeline_commands = typer.Typer(
    help="Run a pipeline over messages on Spark (extra: spark).", no_args_is_help=True, rich_markup_mode=None
)


@pipeline_commands.callback()
def options() -> None:
    """Run a pipeline over messages on Spark (extra: spark)."""


for name, command in PIPELINES.items():
    pipeline_commands.command(name)(command)
