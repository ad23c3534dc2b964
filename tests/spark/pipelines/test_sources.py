"""Sources of pipelines: a broker name in every row, and system topics only when they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC, SCHEDULE_TOPIC, TRACE_TOPIC, TRANS_HALF_TOPIC
from rocketpy.spark.pipelines.sources import is_user_topic, store_messages, whole_log, with_broker_name
from tests.spark.files.test_reader import golden_store
from tests.spark.pipelines.messages import frame, message


def test_messages_of_a_disk_have_the_name_that_the_caller_gives(spark: SparkSession, tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    chosen = store_messages(spark, str(store), "b", ["GoldA"], options={"minPartitions": "2"})
    assert [tuple(row) for row in chosen.groupBy("topic", "broker_name").count().collect()] == [
        ("GoldA", "b", len([record for record in records if record["topic"] == "GoldA"]))
    ]


def test_a_whole_log_has_every_record_of_every_topic(spark: SparkSession, tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    assert whole_log(spark, str(store)).count() == len(records)
    assert whole_log(spark, str(store), options={"view": "problems"}).count() == 0


def test_a_name_that_is_there_is_kept(spark: SparkSession) -> None:
    named = with_broker_name(frame(spark, [message("T", 0, 0), message("T", 0, 1, broker_name=None)]), "other")
    assert [row.broker_name for row in named.orderBy("queue_offset").collect()] == ["b", "other"]


def test_topics_of_the_broker_itself_are_not_the_users(spark: SparkSession) -> None:
    topics = ["T", "%RETRY%g", "%DLQ%g", SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRACE_TOPIC, DELAY_DEAD_LETTER_TOPIC]
    chosen = frame(spark, [message(topic, 0, 0) for topic in topics]).where(is_user_topic(F.col("topic")))
    assert {row.topic for row in chosen.collect()} == {"T", "%RETRY%g", "%DLQ%g"}
