"""All options of a live read as one value that travels."""

from __future__ import annotations

import pickle

from rocketpy.spark.filters import Range
from rocketpy.spark.live.limits import Limit
from rocketpy.spark.live.settings import LiveSettings, settings_of
from rocketpy.spark.live.subscription import Expression, Subscription
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse

LIVE = {"nameServer": "a:1", "topic": "T"}


def settings(mode: Mode = Mode.LIVE, **options: str) -> LiveSettings:
    return settings_of(parse({**LIVE, **options}, mode))


def test_defaults() -> None:
    found = settings()
    assert found.subscription == Subscription(topics=("T",))
    assert (found.partitions_min, found.records_max, found.read_from) == (1, None, "master")
    assert (found.pull.consumer_group, found.pull.batch_size) == ("rocketpy_spark", 1024)
    assert found.pull.decompress
    assert found.pull.fail_on_data_loss
    assert found.pull.expression.is_everything


def test_what_is_given_is_there_and_travels() -> None:
    found = settings(
        minPartitions="5",
        maxRecordsPerPartition="7",
        readFrom="ANY",
        group="g",
        pullBatchSize="64",
        decompress="false",
        failOnDataLoss="false",
        tags="A",
        startTimestamp="10",
        endTimestamp="20",
        startingOffsets='{"T": {"b": {"0": 3}}}',
    )
    assert (found.partitions_min, found.records_max, found.read_from) == (5, 7, "any")
    assert (found.pull.consumer_group, found.pull.batch_size) == ("g", 64)
    assert not found.pull.decompress
    assert not found.pull.fail_on_data_loss
    assert found.pull.expression == Expression("TAG", "A", frozenset({"A"}))
    assert found.pull.wants.tags == {"A"}
    assert found.pull.wants.store_timestamps_ms == Range(10, 20)
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_stream_has_no_end_and_begins_at_what_comes() -> None:
    found = settings(Mode.STREAM)
    assert found.ending == Limit("endingOffsets", "latest")
    assert found.starting.offsets == "latest"
