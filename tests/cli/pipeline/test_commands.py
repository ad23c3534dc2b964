"""``rocketpy pipeline`` as a group of commands."""

from __future__ import annotations

from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.cli.pipeline.commands import PIPELINES
from tests.loaded_modules import loaded_after


def test_each_pipeline_is_a_command_that_says_what_it_does() -> None:
    shown = CliRunner().invoke(app, ["pipeline", "--help"]).stdout
    assert {line.split()[0] for line in shown.partition("Commands:\n")[2].splitlines() if line.strip()} >= set(
        PIPELINES
    )
    for name, function in PIPELINES.items():
        helped = CliRunner().invoke(app, ["pipeline", name, "--help"])
        assert helped.exit_code == 0
        assert function.__doc__ is not None
        assert function.__doc__.split(".")[0][:40] in helped.stdout


def test_spark_is_not_imported_before_a_pipeline_runs() -> None:
    heavy = "pyspark", "pyarrow", "rich", "rocketpy.spark"
    assert loaded_after("import rocketpy.cli.pipeline.commands", *heavy) == []
