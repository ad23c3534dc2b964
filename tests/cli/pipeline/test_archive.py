"""``rocketpy pipeline archive``: wrong use. What it does is in ``tests/spark/pipelines/test_commands.py``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'ARCHIVE'"),
        (["/a", "-n", "127.0.0.1:1"], "at least one topic"),
        (["/a", "--store", "/s"], "files do not hold the broker's name"),
        (["/a", "--store", "/s", "--broker-name", "b", "--files-per-partition", "0"], "--files-per-partition"),
        (["/a", "--store", "/s", "--broker-name", "b", "--format", "orc"], "'orc', expected one of parquet, delta"),
        (["/a", "--store", "/s", "--broker-name", "b", "-o", "path"], "expected NAME=VALUE"),
        (["/a", "--store", "/s", "--broker-name", "b", "--format", "iceberg"], "expected CATALOG.DB.TABLE"),
        (["/a", "--store", "/s", "--compact"], "it is about the whole archive"),
        (["/a", "-t", "T", "--compact"], "it is about the whole archive"),
        (["/a", "--compact", "--format", "delta"], "a table of delta has a compaction of its own"),
    ],
)
def test_wrong_use_is_status_2_before_spark_starts(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "archive", *arguments], env={"NAMESRV_ADDR": ""})
    assert result.exit_code == 2
    assert complaint in result.stderr
