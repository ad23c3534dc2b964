"""What users get wrong, or find wrong, inside Spark: one sentence first, Spark's traceback after.

Java that is missing or too old: ``test_session.py``. No store at a path, no nameserver at an address:
``test_source.py``. Files without permission: ``files/test_log_files.py``, because tests may run as root.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketpy.client import Message, MessageQueue, blocking
from rocketpy.spark.failures import explain_error
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark.files.built_store import BuiltStore, Spec, build_store
from tests.spark.files.test_reader import open_reader, rows


def sentence_of(spark: SparkSession, path: str | Path | None = None, **options: str) -> str:
    """Return what a read fails with; it is one line, and Spark's text has it before any traceback."""
    with pytest.raises(PySparkException) as caught:
        spark.read.format("rocketmq").options(**options).load(*([] if path is None else [str(path)])).count()
    sentence = explain_error(caught.value)
    assert "\n" not in sentence
    assert sentence in str(caught.value).partition("Traceback (most recent call last)")[0]
    return sentence


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    return build_store(tmp_path / "store", [Spec(400) for _ in range(20)])


@contextmanager
def log_file(store: BuiltStore, number: int) -> Iterator[Path]:
    """Put a file back as it was."""
    path = store.log_file(number)
    content = path.read_bytes()
    yield path
    path.write_bytes(content)


@pytest.mark.spark
def test_files_that_are_wrong_are_named(spark: SparkSession, store: BuiltStore, tmp_path: Path) -> None:
    assert (
        sentence_of(spark, store.root, topik="T") == "unknown option 'topik' of format rocketmq, the nearest is topic"
    )
    with log_file(store, 0) as path:
        os.truncate(path, 3000)
        sentence = sentence_of(spark, store.root)
        assert "1096 bytes are missing before the next file" in sentence
        assert str(path) in sentence
    with log_file(store, 1) as path:
        content = bytearray(path.read_bytes())
        content[200:204] = b"\0\0\0\0"
        path.write_bytes(content)
        sentence = sentence_of(spark, store.root)
        assert "mode=permissive" in sentence
        assert f"({path} at " in sentence
    foreign = tmp_path / "foreign" / "commitlog" / "00000000000000000000"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"PAR1" + b"x" * 500)
    sentence = sentence_of(spark, tmp_path / "foreign")
    assert "no CommitLog file" in sentence
    assert str(foreign) in sentence


@pytest.mark.rocketmq(mappedFileSizeCommitLog=65536)
def test_a_store_that_is_being_written_is_read_up_to_a_point(rocketmq: BrokerInThread) -> None:
    """File follows file meanwhile: what was acknowledged before a read is in it, and nothing is damaged."""
    topic = rocketmq.topic("Written", queues=1)
    store = Path(rocketmq.directory) / "store"
    sent = 0
    is_enough = threading.Event()

    def send() -> None:
        nonlocal sent
        with blocking.open_producer(rocketmq.name_server) as producer:
            while not is_enough.is_set():
                number = sent
                producer.send(
                    Message(topic, b"%d " % number * (1 + number % 500)), queue=MessageQueue(topic, "broker-a", 0)
                )
                sent = number + 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        read = 0
        while read < 300:
            before = sent
            options = {"readUnits": ("auto", "always", "never")[read % 3], "minPartitions": "3", "topic": topic}
            found = sorted(int(str(row["queue_offset"])) for row in rows(open_reader(store, **options)))
            assert found == list(range(len(found)))
            assert len(found) >= before
            assert rows(open_reader(store, view="problems")) == []
            read = len(found)
    finally:
        is_enough.set()
        thread.join(60)
