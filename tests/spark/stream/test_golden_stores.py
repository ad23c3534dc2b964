"""Stores that Java wrote, served by our broker: live and stream give the rows that the files have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from rocketpy.spark.files.settings import BROKER_TOPICS
from rocketpy.spark.live.reader import LiveReader
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import SPARK_SCHEMA
from rocketpy.spark.stream.reader import RocketMQStreamReader, open_stream_reader
from rocketpy.testing.fixture.start import start_broker
from tests.spark.files.test_reader import golden_store, open_reader

Row = dict[str, object]
Place = tuple[object, object, object]
SETTINGS = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
    "fileReservedTime": 1_000_000,  # hours: the files are old
}


def rows(reader: DataSourceReader | DataSourceStreamReader, parts: Iterable[InputPartition]) -> dict[Place, Row]:
    """Return rows by their place, each once; the broker's name is not in files."""
    found: dict[Place, Row] = {}
    for part in parts:
        for batch in reader.read(part):
            for row in batch.to_pylist():
                place = (row["topic"], row["queue_id"], row["queue_offset"])
                assert place not in found
                found[place] = row | {"broker_name": None}
    return found


def streamed(options: dict[str, str]) -> dict[Place, Row]:
    """Return what all batches of a stream have, of 50 messages each or a few more."""
    reader = open_stream_reader(parse({**options, "maxOffsetsPerTrigger": "50"}, Mode.STREAM), SPARK_SCHEMA)
    assert isinstance(reader, RocketMQStreamReader)
    found: dict[Place, Row] = {}
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(50))) != start:
        batch = rows(reader, reader.partitions(start, end))
        assert found.keys().isdisjoint(batch)
        found |= batch
        start = end
    reader.stop()
    return found


@pytest.mark.parametrize("name", ["store-clean", "store-crash", "store-torn", "store-ext", "store-ipv6"])
def test_live_stream_and_files_of_a_java_store_are_equal(name: str, tmp_path: Path) -> None:
    """Delayed messages whose time has come are delivered at the start, and are part of either."""
    path, records = golden_store(name, tmp_path)
    golden = {
        (record["topic"], record["queueId"], record["queueOffset"]): record["offset"]
        for record in records
        if record["topic"] not in BROKER_TOPICS
    }
    topics = ",".join(sorted({str(topic) for topic, _, _ in golden}))
    assert len(golden) > 10
    broker = start_broker(store=path, enableConsumeQueueExt=name == "store-ext", **SETTINGS)
    try:
        if not (path / "config" / "topics.json").exists():  # no broker has written it
            for topic in topics.split(","):
                broker.topic(topic, 1 + max(int(str(queue)) for name, queue, _ in golden if name == topic))
        options = {"nameServer": broker.name_server, "topic": topics, "startingOffsets": "earliest"}
        live_reader = LiveReader(settings_of(parse(options, Mode.LIVE)), SPARK_SCHEMA)
        live = rows(live_reader, live_reader.partitions())
        stream = streamed(options)
        files_reader = open_reader(Path(broker.store), topic=topics)
        files = rows(files_reader, files_reader.partitions())
    finally:
        broker.stop()
    assert golden.items() <= {place: row["physical_offset"] for place, row in live.items()}.items()
    assert live == {place: files[place] for place in live}
    assert stream == {place: files[place] for place in stream}
    assert live.keys() <= stream.keys()
