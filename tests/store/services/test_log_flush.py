"""Which services make the log durable, and with what a burst ends: as the settings ask, as RocketMQ chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.runner import RunBlocking
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.opening import make_appender
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.services.log_flush import LogFlush
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import config_for
from tests.store.parts import BORN_HOST, STORE_HOST, Place
from tests.turns import run_in_turn

T = TypeVar("T")
SYNC: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
POOL: dict[str, object] = {"transient_store_pool_enable": True}


@attrs.define(eq=False)
class Bench:
    files: StoreFiles
    appender: MessageAppender
    flush: LogFlush
    replies: list[None]

    def put(self, body: bytes = b"body") -> int:
        """Put a message in a burst of its own; return where the log ends then."""
        self.appender.put("T", 0, body, b"", tags_code(""), (), 0, 0, 1, BORN_HOST, 0)
        self.flush.end_burst()
        return self.appender.wrote_offset

    @property
    def flushed(self) -> int:
        return self.files.commit_log.flushed_offset


@asynccontextmanager
async def bench_with(run_sync: RunBlocking = run_in_turn, /, **settings: object) -> AsyncIterator[Bench]:
    """A log with the services that make it durable, and nothing else."""
    place, clock = Place(SimDisk(), "/store"), ManualClock()
    config: MessageStoreConfig = config_for(place, **settings)
    place.disk.make_directories(place.root)
    environment = StoreEnvironment(disk=place.disk, clock=clock, run_blocking=run_in_turn)
    files = StoreFiles(config, environment=environment)
    for _ in files.recover(lambda topic, properties, timestamp: 0):
        pass
    files.begin()
    appender = make_appender(
        config, files=files, clock=clock, store_host=STORE_HOST, message_arriving=None, bit_map_of=None
    )
    replies: list[None] = []
    flush = LogFlush(
        config,
        files=files,
        appender=appender,
        run_blocking=run_sync,
        flush_replies=lambda: replies.append(None),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(files.allocate_files.run)
        await flush.start(nursery)
        yield Bench(files, appender, flush, replies)
        nursery.cancel_scope.cancel()
    files.close()


@pytest.mark.parametrize("settings", [{}, SYNC, POOL, {"flush_commit_log_timed": False}])
async def test_flush_returns_when_the_log_is_durable(
    settings: dict[str, object], autojump_clock: trio.testing.MockClock
) -> None:
    async with bench_with(**settings) as bench:
        end = bench.put()
        if bench.flush.commit_real_time is not None:
            bench.appender.end_burst()
        with trio.fail_after(60):
            await bench.flush.flush(end)
        assert bench.flushed >= end


async def test_a_sync_that_is_too_slow_for_senders_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    """The producer is answered FLUSH_DISK_TIMEOUT, but this caller waits for the sync itself."""

    async def run_slowly(function: Callable[..., T], /, *arguments: object) -> T:
        await trio.sleep(12)
        return function(*arguments)

    async with bench_with(run_slowly, **SYNC, sync_flush_timeout=5000) as bench:
        end = bench.put()
        before = trio.current_time()
        await bench.flush.flush(end)
        assert bench.flushed >= end
        assert trio.current_time() - before >= 12


async def test_who_waits_for_less_than_is_durable_does_not_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with bench_with(**SYNC) as bench:
        end = bench.put()
        await bench.flush.flush(end)
        before = trio.current_time()
        await bench.flush.flush(end)
        await bench.flush.flush(0)
        assert trio.current_time() == before


async def test_a_burst_ends_in_the_pool_where_there_is_one() -> None:
    async with bench_with(**POOL) as bench:
        bench.put()
        assert bench.files.commit_log.wrote_offset == 0
        bench.appender.end_burst()
        assert bench.files.commit_log.wrote_offset > 0
