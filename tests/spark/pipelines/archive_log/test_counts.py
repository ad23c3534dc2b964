"""Counts of what was written: by place, and as ranges of queue offsets."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines.archive_log.counts import count_messages
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from tests.spark.pipelines.messages import frame, message


def test_rows_are_counted_by_place_and_offsets_by_queue_over_all_places(spark: SparkSession) -> None:
    rows = [message("T", queue, offset) for queue, offset in [(0, 3), (0, 4), (0, 5), (0, 8), (1, 0)]]
    counts = count_messages(frame(spark, rows), F.col("tags"))
    assert counts.rows == {"odd": 2, "even": 3}
    assert counts.ranges == (
        OffsetRange("T", "b", 0, 3, 6),
        OffsetRange("T", "b", 0, 8, 9),
        OffsetRange("T", "b", 1, 0, 1),
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([message("T", 0, 0, broker_name=None)], "without a broker name"),
        ([message("T", 0, 0), message("T", 0, 0)], "broker b queue 0: .* found 2 messages with 1 offsets"),
        ([message("T", 0, 0), message("T", 0, 0), message("T", 0, 2)], "found 3 messages with 2 offsets"),
    ],
)
def test_messages_that_cannot_be_told_apart_are_refused(
    spark: SparkSession, rows: list[dict[str, object]], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        count_messages(frame(spark, rows), F.col("topic"))
