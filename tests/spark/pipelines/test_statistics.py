"""Figures of messages that can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import DataFrame, SparkSession

from rocketpy.spark.pipelines import statistics
from rocketpy.spark.pipelines.audit.progress import OFFSET_SCHEMA
from rocketpy.spark.pipelines.local_rows import local_frame
from tests.spark.pipelines.message_rows import at, message, messages_of


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_rates_are_counted_by_topic_and_bin(spark: SparkSession) -> None:
    messages = [message(number, store_timestamp=at(second)) for number, second in enumerate((0, 5, 9, 10, 25))]
    messages.append(message(9, topic="U", store_timestamp=at(26), stored_size=300))
    rows = statistics.rates(messages_of(spark, messages), "10 seconds").orderBy("topic", "begin").collect()
    assert [(row.topic, row.begin, row.messages, row.stored_bytes) for row in rows] == [
        ("T", at(0).replace(tzinfo=None), 3, 300),
        ("T", at(10).replace(tzinfo=None), 1, 100),
        ("T", at(20).replace(tzinfo=None), 1, 100),
        ("U", at(20).replace(tzinfo=None), 1, 300),
    ]
    assert (rows[0].per_second, rows[3].bytes_per_second) == (0.3, 30.0)


def test_sizes_are_percentiles_of_bodies_and_records(spark: SparkSession) -> None:
    messages = [message(number, body_size=number + 1, stored_size=100 + number) for number in range(1000)]
    [row] = rows_of(statistics.sizes(messages_of(spark, messages)))
    assert (row["messages"], row["body_min"], row["body_mean"], row["body_max"]) == (1000, 1, 500.5, 1000)
    assert (row["body_p50"], row["body_p90"], row["body_p99"], row["body_p999"]) == (500, 900, 990, 999)
    assert (row["record_p50"], row["record_max"]) == (599, 1099)


def test_latency_counts_clocks_that_differ_and_leaves_out_copies(spark: SparkSession) -> None:
    messages = [
        message(0, born_timestamp=at(0), store_timestamp=at(0.2)),
        message(1, born_timestamp=at(1), store_timestamp=at(0.9)),
        message(2, born_timestamp=at(2), store_timestamp=at(2.4)),
        message(3, born_timestamp=at(0), store_timestamp=at(900), properties={"RETRY_TOPIC": "T"}),
        message(4, born_timestamp=None),
    ]
    [row] = rows_of(statistics.latency(messages_of(spark, messages)))
    assert (row["messages"], row["negative"], row["latency_min"], row["latency_p50"], row["latency_max"]) == (
        3,
        1,
        -100,
        200,
        400,
    )


def test_lag_is_in_messages_and_seconds_and_has_a_trend(spark: SparkSession) -> None:
    messages = messages_of(spark, [message(number) for number in range(101)])  # one a second, up to second 100
    offsets = [
        ("T", "slow", 0, 41),
        ("T", "fast", 0, 81),
        ("T", "done", 0, 101),
        ("T", "same", 0, 51),
        ("T", "new", 0, 7),
    ]
    earlier = [("T", "slow", 0, 40), ("T", "fast", 0, 41), ("T", "done", 0, 91), ("T", "same", 0, 41)]
    found = statistics.lag(
        messages,
        local_frame(spark, offsets, OFFSET_SCHEMA),
        local_frame(spark, earlier, OFFSET_SCHEMA),
        seconds=10,
    )
    by_group = {row["consumer_group"]: row for row in rows_of(found)}
    assert {name: (row["lag"], row["lag_seconds"], row["trend"]) for name, row in by_group.items()} == {
        "slow": (60, 59.0, "grows"),
        "fast": (20, 19.0, "shrinks"),
        "done": (0, 0.0, "caught up"),
        "same": (50, 49.0, "steady"),
        "new": (94, 93.0, None),
    }
    assert by_group["fast"]["arrived_per_second"] == 1.0
    assert by_group["fast"]["consumed_per_second"] == 4.0
    assert by_group["fast"]["seconds_to_catch_up"] == pytest.approx(20 / 3)
    assert by_group["slow"]["seconds_to_catch_up"] is None


def test_a_lag_is_steady_where_nothing_came_between_two_looks(spark: SparkSession) -> None:
    """Without the time of the look, the newest message would count as one that came since."""
    messages = messages_of(spark, [message(number) for number in range(11)])
    offsets = local_frame(spark, [("T", "g", 0, 4)], OFFSET_SCHEMA)
    [row] = rows_of(statistics.lag(messages, offsets, offsets, seconds=30, at=at(50)))
    assert (row["lag"], row["arrived_per_second"], row["trend"]) == (7, 0.0, "steady")


def test_one_snapshot_has_the_arrivals_of_the_whole_log_and_an_empty_queue_no_lag(spark: SparkSession) -> None:
    messages = messages_of(spark, [message(number) for number in range(11)])
    offsets = local_frame(spark, [("T", "g", 0, 0), ("Empty", "g", 0, 5)], OFFSET_SCHEMA)
    rows = {row["topic"]: row for row in rows_of(statistics.lag(messages, offsets))}
    assert (rows["T"]["lag"], rows["T"]["lag_seconds"], rows["T"]["arrived_per_second"]) == (11, 10.0, 1.1)
    assert (rows["Empty"]["lag"], rows["Empty"]["lag_seconds"]) == (0, 0.0)
    with pytest.raises(ValueError, match="expected the seconds between the two snapshots"):
        statistics.lag(messages, offsets, offsets)


def test_queues_of_the_same_number_on_two_brokers_have_a_lag_each(spark: SparkSession) -> None:
    messages = [message(number, broker_name="a") for number in range(10)]
    messages += [message(number, broker_name="b") for number in range(4)]
    schema = f"{OFFSET_SCHEMA}, broker_name string"
    offsets = local_frame(spark, [("T", "g", 0, 7, "a"), ("T", "g", 0, 4, "b")], schema)
    earlier = local_frame(spark, [("T", "g", 0, 2, "a"), ("T", "g", 0, 4, "b")], schema)
    rows = rows_of(statistics.lag(messages_of(spark, messages), offsets, earlier, seconds=10))
    assert {row["broker_name"]: (row["lag"], row["lag_seconds"], row["consumed_per_second"]) for row in rows} == {
        "a": (3, 2.0, 0.5),
        "b": (0, 0.0, 0.0),
    }


def test_hot_keys_have_exact_numbers_although_few_are_tracked(spark: SparkSession) -> None:
    keys = ["hot"] * 300 + ["warm other"] * 200 + [f"cold{number}" for number in range(500)]
    messages = [message(number, keys=key) for number, key in enumerate(keys)]
    messages += [message(9000 + number, topic="U", keys="hot") for number in range(50)]
    found = statistics.hot_keys(messages_of(spark, messages), 3, tracked=50)
    assert [(row["topic"], row["key"], row["messages"], row["share"]) for row in rows_of(found)] == [
        ("T", "hot", 300, 0.3),
        ("T", "other", 200, 0.2),
        ("T", "warm", 200, 0.2),
    ]


def test_skew_is_none_where_queues_are_even_and_near_one_where_one_has_all(spark: SparkSession) -> None:
    messages = [message(number, queue_id=number % 4) for number in range(40)]
    messages += [message(number, topic="U", queue_id=0 if number > 2 else number) for number in range(100)]
    rows = {row["topic"]: row for row in rows_of(statistics.queue_skew(messages_of(spark, messages)))}
    assert (rows["T"]["queues"], rows["T"]["most_to_mean"], rows["T"]["gini"]) == (4, 1.0, pytest.approx(0))
    assert (rows["U"]["queues"], rows["U"]["most"], rows["U"]["fullest"]) == (3, 98, 0)
    assert rows["U"]["gini"] == pytest.approx(2 * (1 * 1 + 2 * 1 + 3 * 98) / (3 * 100) - 4 / 3)


def test_the_biggest_messages_are_named_without_their_bodies(spark: SparkSession) -> None:
    messages = messages_of(spark, [message(number, stored_size=size) for number, size in enumerate((5, 9, 7, 9))])
    rows = rows_of(statistics.biggest_messages(messages, 3))
    assert [(row["queue_offset"], row["stored_size"]) for row in rows] == [(1, 9), (3, 9), (2, 7)]
    assert "body" not in rows[0]


def test_retries_are_counted_by_their_number(spark: SparkSession) -> None:
    messages = [message(0)] + [message(number, topic="%RETRY%g", reconsume_times=1 + number % 2) for number in range(3)]
    rows = rows_of(statistics.reconsume_counts(messages_of(spark, messages)))
    assert sorted((row["topic"], row["reconsume_times"], row["messages"]) for row in rows) == [
        ("%RETRY%g", 1, 2),
        ("%RETRY%g", 2, 1),
    ]
