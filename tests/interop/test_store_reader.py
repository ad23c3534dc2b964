"""Java's own store opens what our broker wrote, after a clean shutdown and after SIGKILL, and finds everything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message
from tests.blackbox.wire import SUCCESS, Wire
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.conftest import TARGET
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes, StoreView

pytestmark = pytest.mark.java

SIZES = StoreSizes(log_file=1 << 20, queue_file=6_000_000, index_slots=50_000, index_entries=200_000)
COUNT = 600


@pytest.fixture
def fresh_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster for this test alone, whose CommitLog files are so small that the messages need several."""
    cluster = start_cluster(TARGET, tmp_path / "cluster", 1, SIZES.java())
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


def read_store(java: JavaStores, path: Path, copy: Path, keys: list[KeyQuestion]) -> StoreView:
    """Open a copy of the store with Java's DefaultMessageStore and return what it holds."""
    shutil.copytree(path, copy)
    assert java.open(copy, SIZES)
    try:
        return java.view(copy, keys)
    finally:
        java.drop(copy)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_java_reads_every_message_back(
    fresh_cluster: Cluster, java_stores: JavaStores, tmp_path: Path, end: str
) -> None:
    acknowledged = send_all(fresh_cluster)
    if end == "stopped":
        fresh_cluster.stop()
    else:
        fresh_cluster.kill()
    asked = [KeyQuestion("stored", key) for key in ("key0", "key77", "key599", "absent")]
    view = read_store(java_stores, fresh_cluster.store_path("broker-0"), tmp_path / "copy", asked)

    assert [queue.max_offset for name, queue in sorted(view.queues.items()) if name[0] == "stored"] == [150] * 4
    places: dict[str, int] = {}
    found: dict[tuple[int, int], bytes] = {}
    for message in stored_messages(view):
        found[message.queue_id, message.queue_offset] = message.body
        number = int(message.body.split(b" ", 1)[0])
        properties = (message.keys, message.tags, message.properties["naïve"])
        assert properties == (f"key{number}", f"Tag{number % 3}", "größe")
        places[f"key{number}"] = message.physical_offset
    assert found == acknowledged
    assert len(places) == COUNT
    assert view.keys == ((places["key0"],), (places["key77"],), (places["key599"],), ())


def stored_messages(view: StoreView) -> list[MessageExt]:
    """The messages of the topic, each queue's in order."""
    return [
        decode_message(record) for name, queue in view.queues.items() if name[0] == "stored" for record in queue.records
    ]
