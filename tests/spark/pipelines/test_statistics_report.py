"""All statistics in one report: as values, as JSON, as lines and as files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import DataFrame, SparkSession

from rocketpy.clock import ManualClock
from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines.audit.progress import OFFSET_SCHEMA
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.pipelines.statistics_report import (
    ROWS_MAX,
    SHOWN_MAX,
    STATISTICS,
    GroupProgress,
    Output,
    Table,
    statistics_report,
)
from rocketpy.spark.pipelines.summary import Summary
from tests.spark.pipelines.message_rows import at, message, messages_of


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    """Thirty messages, one a second, two of them sent back."""
    rows = [message(number, keys="hot" if number % 3 else "cold") for number in range(30)]
    rows += [message(30 + number, topic="%RETRY%g", queue_offset=number, reconsume_times=1) for number in range(2)]
    return messages_of(spark, rows)


def test_without_names_all_are_made_and_the_lag_if_there_are_groups(spark: SparkSession, messages: DataFrame) -> None:
    offsets = local_frame(spark, [("T", "g", 0, 10)], OFFSET_SCHEMA)
    report = statistics_report(
        messages, groups=GroupProgress(offsets=offsets), bin_width="10 seconds", count=2, clock=ManualClock()
    )
    tables = {each.name: each for each in report.tables}
    assert list(tables) == list(STATISTICS)
    assert report.summary == Summary(pipeline="statistics", read=32)
    fields = json.loads(json.dumps(report.as_fields()))
    assert (fields["pipeline"], fields["read"], list(fields["tables"])) == ("statistics", 32, list(STATISTICS))
    rates = fields["tables"]["rates"]
    assert rates["row_count"] == 4
    assert [(row["topic"], row["begin"], row["messages"]) for row in rates["rows"]][1:] == [
        ("T", at(0).isoformat(), 10),
        ("T", at(10).isoformat(), 10),
        ("T", at(20).isoformat(), 10),
    ]
    assert [row["key"] for row in fields["tables"]["hot_keys"]["rows"]] == ["hot", "cold"]
    assert len(fields["tables"]["biggest_messages"]["rows"]) == 2
    assert fields["tables"]["lag"]["rows"] == [
        {
            "topic": "T",
            "consumer_group": "g",
            "queue_id": 0,
            "consumer_offset": 10,
            "max_offset": 30,
            "lag": 20,
            "lag_seconds": 19.0,
            "arrived_per_second": pytest.approx(30 / 29),
        }
    ]
    lines = report.lines()
    assert lines[0] == "statistics: 32 read, 0 written, 0 skipped in 0.0 s"
    assert [line for line in lines if line.endswith(":")] == [f"{name}:" for name in STATISTICS]


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_tables_are_written_whole(spark: SparkSession, messages: DataFrame, tmp_path: Path, form: str) -> None:
    report = statistics_report(messages, ["reconsume_counts"], output=Output(directory=str(tmp_path), format=form))
    assert (report.summary.written, report.summary.details["output"]) == (1, str(tmp_path))
    if form == "csv":
        [file] = (tmp_path / "reconsume_counts").glob("part-*.csv")
        with file.open(newline="") as text:
            assert list(csv.reader(text)) == [["topic", "reconsume_times", "messages"], ["%RETRY%g", "1", "2"]]
        return
    read = spark.read.format(form).load(str(tmp_path / "reconsume_counts"))
    assert [row.asDict() for row in read.collect()] == [{"topic": "%RETRY%g", "reconsume_times": 1, "messages": 2}]


def test_a_report_has_the_first_rows_of_a_long_table_and_its_file_has_all(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message(number) for number in range(ROWS_MAX + 5)]
    output = Output(directory=str(tmp_path))
    report = statistics_report(messages_of(spark, rows), ["rates"], bin_width="1 second", output=output)
    [table] = report.tables
    assert (table.row_count, len(table.rows), report.summary.written) == (ROWS_MAX + 5, ROWS_MAX, ROWS_MAX + 5)
    assert spark.read.parquet(str(tmp_path / "rates")).count() == ROWS_MAX + 5


@pytest.mark.parametrize(
    ("names", "form", "complaint"),
    [
        (["rates", "speed"], "csv", r"expected statistics of rates, sizes, .*, found 'speed'"),
        (["lag"], "csv", "the lag needs offsets of consumer groups"),
        (["rates"], "orc", "expected a format of parquet, csv, json, found 'orc'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    messages: DataFrame, names: list[str], form: str, complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        statistics_report(messages, names, output=Output(directory="/nowhere", format=form))


def test_lines_are_aligned_and_end_with_how_many_are_left_out() -> None:
    rows = tuple((f"T{number}", number / 2, None if number else at(0)) for number in range(SHOWN_MAX + 1))
    table = Table(name="rates", columns=("topic", "per_second", "begin"), rows=rows, row_count=30)
    lines = table.lines()
    assert lines[:4] == [
        "rates:",
        "    topic  per_second  begin",
        "    T0          0.000  2026-01-01 00:00:00+00:00",
        "    T1          0.500  -",
    ]
    assert lines[-1] == "    and 10 more"
    assert len(lines) == 2 + SHOWN_MAX + 1
    assert Table(name="lag", columns=("topic",), rows=(), row_count=0).lines() == ["lag:", "    topic"]
