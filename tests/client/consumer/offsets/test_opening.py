"""Which store a consumer has, and how often it is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.client.consumer.offsets.opening import open_offset_store, persist_regularly
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.protocol.message import MessageQueue
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened

QUEUE = MessageQueue("T", "b", 0)


@attrs.frozen
class Offsets:
    is_broadcasting: bool
    local_offset_store_dir: Path


async def test_a_broadcasting_one_has_a_file_that_another_run_of_the_client_finds(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    for expected in (None, 7):
        async with opened(cluster.address, client_ip="10.0.0.7", unit_name="u") as instance:
            requests = QueueRequests(instance=instance, group="g")
            store = await open_offset_store(instance, "g", requests, Offsets(True, tmp_path))
            assert isinstance(store, LocalOffsetStore)
            assert store.table.get(QUEUE) == expected
            store.table.update(QUEUE, 7)
            await store.persist([QUEUE])
            assert (tmp_path / "10.0.0.7@DEFAULT@u" / "g" / "offsets.json").exists()


async def test_what_is_assigned_is_persisted_at_every_interval(autojump_clock: MockClock) -> None:
    written: list[list[MessageQueue]] = []
    assigned = [QUEUE]

    async def persist_soon(queues: Iterable[MessageQueue]) -> None:
        written.append(list(queues))

    with trio.move_on_after(12):
        await persist_regularly(persist_soon, lambda: assigned, 5_000)
    assert written == [[QUEUE], [QUEUE]]
