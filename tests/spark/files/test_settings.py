"""From the options of a read of files to its settings."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import SettingsError
from rocketpy.spark.files.problems import ReadMode
from rocketpy.spark.files.settings import BROKER_TOPICS, CheckCrc, FileSettings, ReadUnits, settings_of
from rocketpy.spark.filters import MessageFilter, Range
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse


def settings(**options: str) -> FileSettings:
    return settings_of(parse({"path": "/store", **options}, Mode.FILES))


def test_a_path_is_enough() -> None:
    assert settings() == FileSettings(path="/store", wants=MessageFilter(without_topics=BROKER_TOPICS))


def test_topics_of_the_broker_itself_are_read_where_they_are_asked_for() -> None:
    assert "SCHEDULE_TOPIC_XXXX" in BROKER_TOPICS
    assert "RMQ_SYS_TRANS_HALF_TOPIC" in BROKER_TOPICS
    assert "BenchmarkTest" not in BROKER_TOPICS
    assert settings(includeSystemTopics="true").wants == MessageFilter()
    assert settings(topic="TBW102").wants == MessageFilter(topics=frozenset(("TBW102",)))


def test_every_option_reaches_its_setting() -> None:
    assert settings(
        topic="A,B",
        keys="k1,k2",
        startTimestamp="10",
        endTimestamp="20",
        mode="dropMalformed",
        readUnits="never",
        maxPartitionBytes="1m",
        minPartitions="5",
        checkCrc="false",
        decompress="false",
        failOnDataLoss="false",
    ) == FileSettings(
        path="/store",
        wants=MessageFilter(topics=frozenset("AB"), keys=frozenset(("k1", "k2")), store_timestamps_ms=Range(10, 20)),
        mode=ReadMode.DROP_MALFORMED,
        read_units=ReadUnits.NEVER,
        partition_bytes_max=2**20,
        partitions_min=5,
        check_crc=CheckCrc.NEVER,
        decompress=False,
        fail_on_data_loss=False,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "strict"}, "option mode: expected failfast, permissive or dropmalformed, found 'strict'"),
        ({"readUnits": "yes"}, "option readUnits: expected auto, always or never, found 'yes'"),
        ({"maxPartitionBytes": "10"}, "option maxPartitionBytes: expected a size from 65536"),
        ({"checkCrc": "yes"}, "option checkCrc: expected auto, true or false, found 'yes'"),
        ({"checkCRCs": "true"}, "unknown option 'checkCRCs' of format rocketmq, the nearest is checkCrc"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings(**options)
