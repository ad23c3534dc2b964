"""Java's own store opens what our broker wrote, after an orderly stop and after SIGKILL, and finds everything there."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.wire import SUCCESS, Wire
from tests.interop.clients import Program, Received, ToSend, produce, received
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.conftest import TARGET

pytestmark = pytest.mark.java

LOG_FILE_SIZE = 1 << 20
INDEX = {"maxHashSlotNum": 50_000, "maxIndexNum": 200_000}
COUNT = 600


@pytest.fixture
def fresh_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster for this test alone, whose CommitLog files are so small that the messages need several."""
    settings = {"mappedFileSizeCommitLog": LOG_FILE_SIZE, **INDEX}
    cluster = start_cluster(TARGET, tmp_path / "cluster", 1, settings)
    yield cluster
    cluster.stop()


def send_all(cluster: Cluster) -> dict[tuple[int, int], bytes]:
    """Send bodies from empty to 16 KiB, and return each acknowledged one by its queue and offset."""
    topic = cluster.create_topic("stored", queues=4)
    acknowledged = {}
    with Wire(cluster.brokers["broker-0"]) as wire:
        for index in range(COUNT):
            body = f"{index} ".encode() * (1 + index * index % 3000)
            response = wire.send(
                topic, index % 4, body, f"KEYS\x01key{index}\x02TAGS\x01Tag{index % 3}\x02naïve\x01größe\x02"
            )
            assert response.code == SUCCESS, response
            acknowledged[int(response.fields["queueId"]), int(response.fields["queueOffset"])] = body
    return acknowledged


def read_store(path: Path, directory: Path, keys: list[str]) -> list[dict[str, object]]:
    """Open a copy of the store with Java's DefaultMessageStore and return what it printed."""
    shutil.copytree(path, directory / "copy")
    program = Program(
        "java",
        "readStore",
        directory / "reader",
        path=directory / "copy",
        log_file_size=LOG_FILE_SIZE,
        index_slots=INDEX["maxHashSlotNum"],
        index_entries=INDEX["maxIndexNum"],
        topic="stored",
        keys=",".join(keys),
    )
    return [dict(each) for each in program.run([])]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_java_reads_every_message_back(fresh_cluster: Cluster, tmp_path: Path, end: str) -> None:
    acknowledged = send_all(fresh_cluster)
    if end == "stopped":
        fresh_cluster.stop()
    else:
        fresh_cluster.kill()
    lines = read_store(fresh_cluster.store_path("broker-0"), tmp_path, ["key0", "key77", "key599", "absent"])

    messages = [received(each) for each in lines if each["event"] == "message" and each["topic"] == "stored"]
    assert {(each.queue_id, each.queue_offset): each.body for each in messages} == acknowledged
    assert len(messages) == COUNT
    by_queue: dict[int, list[int]] = defaultdict(list)
    for each in messages:
        by_queue[each.queue_id].append(each.queue_offset)
        number = int(each.body.split(b" ", 1)[0])
        assert (each.keys, each.tags, each.properties["naïve"]) == (f"key{number}", f"Tag{number % 3}", "größe")
    assert list(by_queue.values()) == [list(range(150))] * 4
    _check_keys(lines, messages)


def _check_keys(lines: list[dict[str, object]], messages: list[Received]) -> None:
    """Java's index look-up leads to exactly the messages with that key."""
    offsets = {each["keys"]: each["commitLogOffset"] for each in lines if each["event"] == "message"}
    found = {each["key"]: each["physicalOffsets"] for each in lines if each["event"] == "key"}
    assert found == {
        "key0": [offsets["key0"]],
        "key77": [offsets["key77"]],
        "key599": [offsets["key599"]],
        "absent": [],
    }
    assert len(messages) == len(offsets)


def test_java_reads_what_java_sent(fresh_cluster: Cluster, tmp_path: Path) -> None:
    topic = fresh_cluster.create_topic("stored", queues=4)
    asked = [ToSend(topic=topic, body=b"%d" % index, tags="T", keys=f"k{index}") for index in range(32)]
    sent = produce("java", fresh_cluster.namesrv, asked, tmp_path / "single")
    batch = produce("java", fresh_cluster.namesrv, asked, tmp_path / "batch", mode="batch")
    fresh_cluster.stop()
    lines = read_store(fresh_cluster.store_path("broker-0"), tmp_path, ["k7"])
    messages = {each.msg_id: each for each in (received(line) for line in lines if line["event"] == "message")}
    ids = [each.msg_id or "" for each in sent] + (batch[0].msg_id or "").split(",")
    assert [messages[each].body for each in ids] == [each.body for each in [*asked, *asked]]
    (key,) = [each for each in lines if each["event"] == "key"]
    assert isinstance(key["physicalOffsets"], list)
    assert len(key["physicalOffsets"]) == 2
