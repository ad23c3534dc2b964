"""``rocketpy pipeline replay``: options. What it does is in ``tests/spark/pipelines/test_commands.py``."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.cli.pipeline.replay import parse_time, parse_topics


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'TARGET'"),
        (["127.0.0.1:1"], "expected a cluster, or a store directory"),
        (["127.0.0.1:1", "--archive", "/a", "--rate", "0"], "--rate"),
        (["127.0.0.1:1", "--archive", "/a", "--begin", "noon"], "'noon', expected 2026-01-31T23:59:59"),
        (["127.0.0.1:1", "--archive", "/a", "--to", "a", "--to", "b=c"], "'a', expected one TOPIC, or only FROM=TO"),
    ],
)
def test_wrong_use_is_status_2_before_spark_starts(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "replay", *arguments], env={"NAMESRV_ADDR": ""})
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_topics_are_one_or_pairs() -> None:
    assert parse_topics([]) is None
    assert parse_topics(["again"]) == "again"
    assert parse_topics(["a=b", "c=d"]) == {"a": "b", "c": "d"}
    for wrong in (["a="], ["=b"], ["a", "b"]):
        with pytest.raises(typer.BadParameter):
            parse_topics(wrong)


def test_times_have_a_zone() -> None:
    assert parse_time("", "--begin") is None
    assert parse_time("1700000000000", "--begin") == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert parse_time("2026-01-31T12:00:00+02:00", "--begin") == datetime(2026, 1, 31, 10, tzinfo=UTC)
