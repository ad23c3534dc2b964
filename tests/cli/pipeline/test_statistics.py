"""``rocketpy pipeline statistics``: wrong use. What it shows is in ``tests/spark/pipelines/test_live_commands.py``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.cli.pipeline.statistics import OUTPUT_FORMATS


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "expected a cluster, or a store directory"),
        (["-n", "127.0.0.1:1"], "at least one topic"),
        (["--archive", "/a", "--watch", "5"], "an archive has no offsets of groups"),
        (["--archive", "/a", "--format", "orc"], "'orc', expected one of parquet, csv, json"),
        (["--archive", "/a", "--top", "0"], "--top"),
    ],
)
def test_wrong_use_is_status_2_before_spark_starts(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "statistics", *arguments], env={"NAMESRV_ADDR": ""})
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_help_and_formats_are_those_of_the_report() -> None:
    """They are repeated in the command, which does not import Spark before it runs."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")
    from rocketpy.spark.pipelines.statistics_report import FORMATS, STATISTICS

    assert OUTPUT_FORMATS == FORMATS
    helped = " ".join(CliRunner().invoke(app, ["pipeline", "statistics", "--help"]).stdout.split())
    assert f"{', '.join(STATISTICS)}; without one, all." in helped
