"""What the commands of ``rocketpy pipeline`` share: the Spark session, failures as sentences, the summary.

Spark is imported when a command runs. Rule: standard output has the result alone, a summary or JSON; progress and
failures go to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import attrs
import typer

from rocketpy.cli.outcome import FAILED, CommandError, outcome
from rocketpy.cli.printing import print_json, print_line, print_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
GATEWAY_OF_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for a Python program."""


@attrs.frozen(kw_only=True)
class Running:
    """The options of every pipeline: its Spark session, and the form of its result."""

    master: Annotated[
        str, typer.Option("--master", help="Master of Spark; under spark-submit, its own counts.", show_default=True)
    ] = DEFAULT_MASTER
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark; may be repeated.", show_default=False),
    ] = None
    as_json: Annotated[bool, typer.Option("-J", "--json", help="The result as a JSON object.")] = False

    def session(self, name: str) -> AbstractContextManager[SparkSession]:
        """Open the session of the pipeline with this name; see :func:`pipeline_session`."""
        return pipeline_session(name, self.master, self.conf)

    @contextmanager
    def bar(self, spark: SparkSession, title: str) -> Iterator[None]:
        """Show a bar over the tasks of the block, if standard error is a terminal."""
        from rocketpy.spark.pipelines.progress import progress_bar

        with progress_bar(spark, title, show=is_bar_wanted()):
            yield

    def show(self, result: Result) -> None:
        """Print a result on standard output."""
        if self.as_json:
            print_json(result.as_fields())
        else:
            print_lines(result.lines())


@contextmanager
def pipeline_session(name: str, master: str, configuration: list[str] | None) -> Iterator[SparkSession]:
    """Open the Spark session of a command, and end the command with its exit status and one sentence for a failure.

    A program that already has a session lends it: it is neither set up nor stopped here.
    """
    settings = dict(_setting(each) for each in configuration or ())
    with outcome():
        try:
            import pyarrow  # noqa: F401 - the readers need it, and would fail in the middle
            from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession

            from rocketpy.spark.failures import explain_error
            from rocketpy.spark.session import open_local_session
        except ImportError as missing:
            package = (missing.name or "a package").partition(".")[0]
            raise CommandError(
                f"pipelines run on Spark, and {package} is not installed: pip install 'DIR[spark]', where DIR is a "
                "checkout of rocketpy"
            ) from missing
        spark, is_ours = SparkSession.getActiveSession(), False
        if spark is None:
            is_ours = True
            if GATEWAY_OF_SPARK_SUBMIT in os.environ:
                spark = SparkSession.builder.appName(f"rocketpy {name}").getOrCreate()
            else:
                spark = open_local_session(f"rocketpy {name}", master=master, settings=settings)
            spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        except (PySparkException, Py4JJavaError) as failure:
            print_line(f"rocketpy: {explain_error(failure)}", err=True)
            print_lines(str(failure).splitlines(), err=True)
            raise typer.Exit(FAILED) from None
        finally:
            if is_ours:
                spark.stop()


class Result(Protocol):
    """What a command prints in the end: the summary or report of a pipeline."""

    def as_fields(self) -> Mapping[str, object]: ...

    def lines(self) -> list[str]: ...


def is_bar_wanted() -> bool:
    """Return whether a progress bar can be seen: standard error is a terminal."""
    return sys.stderr.isatty()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r}, expected KEY=VALUE", param_hint="--conf")
    return key, value
