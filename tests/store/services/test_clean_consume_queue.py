"""Queues and index follow the log when it has lost files, and what of them is of no use any more goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.errors import StoreError
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.services.clean_consume_queue import CleanConsumeQueueService
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Parts, Place
from tests.turns import run_in_turn

T = TypeVar("T")


@attrs.define
class ForgettingIndex:
    """Records the offsets up to which it is asked to delete."""

    forgotten: list[int] = attrs.Factory(list)

    async def delete_expired_files(self, log_min_offset: int) -> int:
        await trio.lowlevel.checkpoint()
        self.forgotten.append(log_min_offset)
        return 1


@attrs.define
class World:
    """A store with a queue of 100 messages, 20 units in a file and 16 messages in a file of the log."""

    disk: SimDisk
    parts: Parts
    service: CleanConsumeQueueService
    index: ForgettingIndex

    def queue_files(self, topic: str = "TopicTest", queue_id: int = 0) -> list[int]:
        """The first offsets of the queue's files."""
        names = self.disk.list_directory(f"/store/consumequeue/{topic}/{queue_id}")
        return [int(name) // 20 for name in names]

    def lose_log_files(self, count: int) -> None:
        commit_log = self.parts.commit_log
        commit_log.flushed_offset = commit_log.wrote_offset
        for _ in range(count):
            to_close: list[DiskFile] = []
            self.disk.unlink(commit_log.take_first(to_close.append).path)
            for file in to_close:
                file.close()


def new_world(run_blocking: RunBlocking = run_in_turn, *, pause_ms: int = 100) -> World:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"))
    for number in range(100):
        parts.put_all([b"%d" % number + bytes(400)])
    index = ForgettingIndex()
    service = CleanConsumeQueueService(
        commit_log=parts.commit_log,
        queues=parts.queues,
        index=index,
        disk=disk,
        run_blocking=run_blocking,
        close_files=CloseFilesService(run_blocking=run_blocking),
        pause_ms=pause_ms,
    )
    return World(disk, parts, service, index)


async def test_a_queue_begins_with_its_first_message_that_is_there(autojump_clock: MockClock) -> None:
    world = new_world()
    queue = world.parts.queues.find("TopicTest", 0)
    first_left = world.parts.commit_log.files[3].base_offset
    world.lose_log_files(3)
    assert queue.min_offset == 0
    began = trio.current_time()
    assert await world.service.clean() == 3
    assert trio.current_time() - began == pytest.approx(0.1), "one pause for the one queue that lost files"
    assert queue.unit_at(queue.min_offset)[0] == first_left
    assert queue.unit_at(queue.min_offset - 1)[0] < first_left
    assert world.queue_files() == [each for each in range(0, 100, 20) if each + 20 > queue.min_offset]
    assert len(world.parts.bodies()) == 100 - queue.min_offset
    assert world.index.forgotten == [first_left]
    assert await world.service.clean() == 1, "the index decides for itself"


async def test_a_queue_that_is_all_gone_begins_at_its_end_and_goes_on(autojump_clock: MockClock) -> None:
    world = new_world()
    while world.parts.commit_log.end_of_file == world.parts.commit_log.files[-1].end_offset:
        world.parts.put_all([bytes(4000)], topic="Other")
        if len(world.parts.commit_log.files) > 8:
            break
    world.lose_log_files(len(world.parts.commit_log.files) - 1)
    await world.service.clean()
    queue = world.parts.queues.find("TopicTest", 0)
    assert (queue.min_offset, queue.max_offset) == (100, 100)
    assert world.queue_files() == [80], "the last file stays"
    world.parts.put_all([b"next"])
    assert [(each.queue_offset, each.body) for each in world.parts.messages()] == [(100, b"next")]


async def test_what_a_crash_left_over_goes_after_a_start(autojump_clock: MockClock) -> None:
    world = new_world()
    world.lose_log_files(2)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.service.run)
        await trio.sleep(59)
        assert world.queue_files() == list(range(0, 100, 20))
        await trio.sleep(2)
        assert world.queue_files()[0] > 0
        nursery.cancel_scope.cancel()


async def test_cold_units_are_read_in_a_worker_thread(autojump_clock: MockClock) -> None:
    world = new_world()
    world.lose_log_files(3)
    for first in world.queue_files():
        world.disk.evict(f"/store/consumequeue/TopicTest/0/{first * 20:020d}")
    assert await world.service.clean() == 3


@pytest.mark.parametrize("awaited", ["_read_all", "sync_directory_if_there"])
async def test_a_topic_may_be_deleted_meanwhile(awaited: str, autojump_clock: MockClock) -> None:
    async def delete_first(function: Callable[..., T], /, *arguments: object) -> T:
        await trio.lowlevel.checkpoint()
        if function.__name__ == awaited:
            world.parts.queues.remove_topic("TopicTest", 0)
        return function(*arguments)

    world = new_world(delete_first)
    world.lose_log_files(3)
    for first in world.queue_files():
        world.disk.evict(f"/store/consumequeue/TopicTest/0/{first * 20:020d}")
    await world.service.clean()
    world.parts.put_all([b"new"])
    assert [(each.queue_offset, each.body) for each in world.parts.messages()] == [(0, b"new")]


async def test_a_directory_that_cannot_be_synced_ends_it(autojump_clock: MockClock) -> None:
    world = new_world()
    world.lose_log_files(3)
    world.disk.fail_call("sync_directory")
    with pytest.raises(StoreError):
        await world.service.clean()


async def test_deletions_that_the_log_has_forgotten_are_forgotten(autojump_clock: MockClock) -> None:
    world = new_world()
    world.parts.queues.remove_topic("TopicTest", world.parts.commit_log.files[1].base_offset)
    assert world.disk.list_directory("/store/consumequeue/TopicTest")
    world.lose_log_files(1)
    await world.service.clean()
    assert not world.disk.exists("/store/consumequeue/TopicTest")


async def test_queues_without_messages_are_deleted_on_demand(autojump_clock: MockClock) -> None:
    world = new_world()
    for topic in ("Idle", "SCHEDULE_TOPIC_XXXX"):
        world.parts.put_all([b"old"], topic=topic)
    files = len(world.parts.commit_log.files)
    while len(world.parts.commit_log.files) < files + 2:
        world.parts.put_all([bytes(4000)], queue_id=1)
    world.lose_log_files(files)
    world.parts.put(b"pending", "Idle", 1)
    assert await world.service.delete_expired_queues(["SCHEDULE_TOPIC_XXXX"]) == 2
    assert sorted(world.disk.list_directory("/store/consumequeue")) == ["Idle", "SCHEDULE_TOPIC_XXXX", "TopicTest"]
    assert world.disk.list_directory("/store/consumequeue/TopicTest") == ["1"]
    world.parts.put_all([b"new"], topic="Idle")
    assert [(each.queue_offset, each.body) for each in world.parts.messages("Idle")] == [(0, b"new")]
    assert world.parts.bodies("Idle", 1) == [b"pending"]
    assert await world.service.delete_expired_queues([]) == 1


@pytest.mark.parametrize("keeps", [0, 1])
async def test_power_lost_after_queues_were_deleted_loses_no_message_of_theirs(
    keeps: int, autojump_clock: MockClock
) -> None:
    """Their new messages have small offsets, whatever of the old queue is still there."""
    world = new_world()
    files = len(world.parts.commit_log.files)
    while len(world.parts.commit_log.files) < files + 2:
        world.parts.put_all([bytes(4000)], topic="Other")
    world.lose_log_files(files)
    world.disk.sync_directory("/store/commitlog")
    await world.service.delete_expired_queues([])
    world.parts.put_all([b"a", b"b"])
    for mapped_file in world.parts.commit_log.files:
        mapped_file.file().sync()
    world.disk.lose_power(lambda count: keeps)
    again = Parts(Place(world.disk, "/store"), is_clean=False)
    assert [(each.queue_offset, each.body) for each in again.messages()] == [(0, b"a"), (1, b"b")]
