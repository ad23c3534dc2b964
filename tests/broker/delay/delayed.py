"""Fixture: a store with delayed messages and the service that delivers them, on Trio's mock clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from rocketpy.broker.delay.dead_letter import DelayDeadLetters
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut, PutMessageResult
from rocketpy.protocol.fastjson import loads
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC
from rocketpy.runner import run_inline
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.disk.interface import Disk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.testing.sim.disk import SimDisk

ROOT = "/store"
FILE = f"{ROOT}/config/delayOffset.json"
BORN_HOST = bytes((10, 0, 0, 1)) + (50_000).to_bytes(4, "big")
STORE_HOST = bytes((10, 0, 0, 2)) + (10_911).to_bytes(4, "big")
LEVELS = "1s 5s 10s 30m"
BEGIN_MS = 1_700_000_000_000
SYNC = FlushDiskType.SYNC_FLUSH


class TrioWallClock:
    """A wall clock that moves as Trio's does, and may be set."""

    def __init__(self) -> None:
        self.set_by_ms = 0

    def timestamp_ms(self) -> int:
        return BEGIN_MS + round(trio.current_time() * 1000) + self.set_by_ms


@attrs.define(eq=False)
class DelayedMessages:
    """The objects of a test."""

    store: MessageStore
    service: ScheduleMessageService
    offsets: DelayOffsetManager
    stats: BrokerStatsManager
    clock: TrioWallClock
    put: MessagePut
    made_topics: list[str]
    """What stands for the table of topics: the topic of dead letters, each time that it is asked for."""
    woken_count: int = 0

    def send(
        self, level: int, body: bytes, *, topic: str = "T", queue_id: int = 0, sys_flag: int = 0, **properties: str
    ) -> PutMessageResult:
        """Put a message that is to be delayed, in a burst of its own."""
        result = self.put.put(
            MessageExtBrokerInner(
                topic=topic,
                queue_id=queue_id,
                body=body,
                properties={"DELAY": str(level), **properties} if level else properties,
                flag=3,
                sys_flag=sys_flag,
                born_timestamp=12,
                born_host=BORN_HOST,
                reconsume_times=2,
            )
        )
        self.store.end_burst()
        return result

    def messages(self, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
        """Return what a queue holds."""
        found: list[MessageExt] = []
        while True:
            result = self.store.get_message_nowait(topic, queue_id, len(found), 32)
            assert result is not None
            if not result.body:
                return found
            found += decode_messages(result.body, decompress=False)

    def bodies(self, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.messages(topic, queue_id)]

    def at_s(self, topic: str = "T", queue_id: int = 0) -> list[float]:
        """Return when each message of a queue was stored, in seconds of Trio's time."""
        return [(message.store_timestamp - BEGIN_MS) / 1000 for message in self.messages(topic, queue_id)]


@asynccontextmanager
async def open_small_store(
    levels: DelayLevels,
    *,
    clock: TrioWallClock,
    disk: Disk | None = None,
    root: str = ROOT,
    may_be_named: Callable[[str], bool] | None = None,
    **settings: object,
) -> AsyncIterator[MessageStore]:
    """Open a store of small files, whose units of delayed messages hold the time of delivery."""
    usual: dict[str, object] = {
        "store_path_root_dir": root,
        "mapped_file_size_commit_log": 1 << 19,
        "mapped_file_size_consume_queue": 20 * 300,
        "max_message_size": 1 << 17,
        "max_hash_slot_num": 100,
        "max_index_num": 1000,
    }
    async with open_message_store(
        MessageStoreConfig(**{**usual, **settings}),  # type: ignore[arg-type]
        disk=disk or SimDisk(),
        clock=clock,
        run_blocking=run_inline,
        store_host=STORE_HOST,
        tags_code=levels.tags_code,
        may_be_named=may_be_named,
        memory_bytes=1 << 40,
    ) as store:
        yield store


@asynccontextmanager
async def open_delayed(
    disk: Disk | None = None,
    *,
    root: str = ROOT,
    levels: str = LEVELS,
    clock: TrioWallClock | None = None,
    orderly: bool = True,
    may_be_named: Callable[[str], bool] | None = None,
    is_deleted: Callable[[str, int], bool] = lambda topic, physical_offset: False,
    **settings: object,
) -> AsyncIterator[DelayedMessages]:
    """Open a store and deliver; at the end stop in order, or only stop delivering and note nothing."""
    clock, disk, delay_levels = clock or TrioWallClock(), disk or SimDisk(), DelayLevels.parse(levels)
    config = MessageStoreConfig(**settings)  # type: ignore[arg-type]
    async with open_small_store(
        delay_levels, clock=clock, disk=disk, root=root, may_be_named=may_be_named, **settings
    ) as store:
        offsets = DelayOffsetManager(path=f"{root}/config/delayOffset.json", disk=disk, run_blocking=run_inline)
        offsets.load()
        stats = BrokerStatsManager(cluster_name="C", clock=clock)
        delayed: DelayedMessages

        def serve_woken() -> None:
            delayed.woken_count += 1

        made_topics: list[str] = []
        service = ScheduleMessageService(
            store=store,
            levels=delay_levels,
            offsets=offsets,
            clock=clock,
            flush_interval_ms=config.flush_delay_offset_interval,
            serve_woken=serve_woken,
            dead_letters=DelayDeadLetters(store=store, make_topic=lambda: made_topics.append(DELAY_DEAD_LETTER_TOPIC)),
            stats=stats if config.enable_schedule_message_stats else None,
            is_deleted=is_deleted,
        )
        put = MessagePut(store=store, levels=delay_levels, delivery=service)
        delayed = DelayedMessages(store, service, offsets, stats, clock, put, made_topics)
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            await trio.testing.wait_all_tasks_blocked()
            yield delayed
            nursery.cancel_scope.cancel()
        if orderly:
            await service.finish()


# ---- delayOffset.json -----------------------------------------------------------------------------------------------


def text_of(disk: SimDisk) -> str:
    file = disk.open(FILE, read_only=True)
    try:
        return file.read(0, file.size()).decode()
    finally:
        file.close()


def write_text(disk: SimDisk, text: str) -> None:
    disk.make_directories(f"{ROOT}/config")
    file = disk.open(FILE, create=True)
    file.truncate(0)
    file.write(0, text.encode())
    file.sync()
    file.close()


def noted_offsets(disk: SimDisk) -> object:
    """Return the offsets by level that the file has."""
    content = loads(text_of(disk))
    assert isinstance(content, dict)
    return content["offsetTable"]
