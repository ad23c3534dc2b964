"""``rocketpy pipeline trace``: wrong use. What it shows is in ``tests/spark/pipelines/test_trace.py``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'ID'"),
        (["K"], "expected a store directory, or a cluster"),
        (["K", "-n", "127.0.0.1:1"], "at least one topic"),
    ],
)
def test_wrong_use_is_status_2_before_spark_starts(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "trace", *arguments], env={"NAMESRV_ADDR": ""})
    assert result.exit_code == 2
    assert complaint in result.stderr
