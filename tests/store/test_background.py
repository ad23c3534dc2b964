"""The background of a store as a whole: it runs before a message is taken, and its end makes everything durable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.background import StoreServices
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.opening import make_appender
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import config_for
from tests.store.parts import BORN_HOST, STORE_HOST, Place
from tests.turns import run_in_turn

SYNC: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


@attrs.define(eq=False)
class Bench:
    disk: SimDisk
    files: StoreFiles
    appender: MessageAppender
    services: StoreServices

    def put(self) -> PutMessageStatus:
        status, _, _ = self.appender.put("T", 0, b"body", b"", tags_code(""), (b"key",), 0, 0, 1, BORN_HOST, 0)
        return status

    @property
    def has_abort_file(self) -> bool:
        return self.disk.exists("/store/abort")


@asynccontextmanager
async def bench_with(**settings: object) -> AsyncIterator[Bench]:
    """The files of a recovered store, and services that do not run yet."""
    disk, clock = SimDisk(), ManualClock()
    place = Place(disk, "/store")
    config: MessageStoreConfig = config_for(place, **settings)
    disk.make_directories(place.root)
    environment = StoreEnvironment(disk=disk, clock=clock, run_blocking=run_in_turn)
    files = StoreFiles(config, environment=environment)
    for _ in files.recover(lambda topic, properties, timestamp: 0):
        pass
    files.begin()
    appender = make_appender(
        config, files=files, clock=clock, store_host=STORE_HOST, message_arriving=None, bit_map_of=None
    )
    services = StoreServices(
        config,
        files=files,
        appender=appender,
        environment=environment,
        begin_sync=None,
        flush_replies=lambda: None,
        report_full=lambda why: None,
    )
    yield Bench(disk, files, appender, services)
    files.close()


@pytest.mark.parametrize("settings", [{}, SYNC, {"transient_store_pool_enable": True}])
async def test_a_clean_shutdown_makes_everything_durable_and_removes_the_abort_file(
    settings: dict[str, object],
) -> None:
    async with bench_with(**settings) as bench:
        async with bench.services.running():
            assert bench.has_abort_file
            assert bench.put() is PutMessageStatus.PUT_OK
        assert not bench.has_abort_file
        assert bench.files.commit_log.flushed_offset == bench.appender.wrote_offset > 0
        assert bench.services.index_behind == 0
        assert bench.disk.exists("/store/orderly-end")
        bench.disk.lose_power(choose=lambda count: 0)
        assert bench.disk.open("/store/checkpoint").read(0, 8) != bytes(8), "that the queues have it is noted too"


async def test_a_message_put_in_the_last_burst_is_written_and_none_is_taken_after_it() -> None:
    async with bench_with() as bench:
        async with bench.services.running():
            bench.put()  # this burst has not ended
        assert bench.files.commit_log.wrote_offset == bench.appender.wrote_offset > 0
        assert bench.put() is not PutMessageStatus.PUT_OK
        assert bench.appender.writable_or_why() == "the message store is shutting down"


async def test_a_failure_leaves_the_abort_file() -> None:
    async with bench_with() as bench:
        with pytest.RaisesGroup(KeyboardInterrupt):
            async with bench.services.running():
                bench.put()
                raise KeyboardInterrupt
        assert bench.has_abort_file
        assert not bench.disk.exists("/store/orderly-end")


async def test_whatever_runs_beside_them_ends_with_them() -> None:
    ended: list[str] = []

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("figures")

    async with bench_with() as bench:
        async with bench.services.running() as nursery:
            await nursery.start(run)
        assert ended == ["figures"]


async def test_an_index_that_could_not_be_completed_is_left_to_the_next_start() -> None:
    async with bench_with() as bench:
        async with bench.services.running():
            bench.put()
            bench.appender.end_burst()
            bench.disk.capacity_bytes = bench.disk.used_bytes("/")
        assert bench.services.index_behind > 0
        assert bench.has_abort_file
        assert bench.files.commit_log.flushed_offset == bench.appender.wrote_offset, "the log is durable all the same"


async def test_what_the_index_lacks_is_said_and_can_be_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with bench_with() as bench:
        bench.put()
        bench.services.end_burst()
        end = bench.appender.wrote_offset
        assert bench.services.why_not_indexed(end) == f"the index is {end} bytes of the log behind"
        async with bench.services.running():
            await bench.services.wait_indexed()
            assert bench.services.why_not_indexed(end) == ""


async def test_without_an_index_there_is_no_lag(autojump_clock: trio.testing.MockClock) -> None:
    async with bench_with(message_index_enable=False) as bench:
        async with bench.services.running():
            bench.put()
            bench.services.end_burst()
            assert bench.services.index_behind == 0
            await bench.services.wait_indexed()
            assert bench.services.why_not_indexed(1 << 62) == ""
        assert not bench.has_abort_file
