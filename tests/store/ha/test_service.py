"""The master's side over streams in memory: what slaves get, when, and which connections are closed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.protocol import FrameReader
from rocketpy.store.ha.service import CONNECTIONS_MAX, HAService
from tests.store.ha.slave_peer import MemoryLog, SlavePeer


@attrs.define
class Master:
    """A service with its log; ``acknowledged`` has the best offset after each report."""

    log: MemoryLog
    nursery: trio.Nursery
    times: HATimes = attrs.Factory(HATimes)
    acknowledged: list[int] = attrs.Factory(list)
    service: HAService = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.service = HAService(log=self.log, settings=lambda: self.times, acknowledged=self.note)

    def note(self) -> None:
        self.acknowledged.append(max(slave.acknowledged_offset for slave in self.service.slaves()))

    def connect(self, request: int | None = None) -> SlavePeer:
        """Return a slave whose log ends at ``request``; None for an empty one."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.service.serve, theirs, f"10.0.0.{len(self.acknowledged)}:1")
        return SlavePeer(ours, FrameReader(request, file_size=self.log.file_size))

    def append(self, size: int) -> None:
        self.log.append(size)
        self.service.wake()


@asynccontextmanager
async def a_master(*, size: int = 2500, **times: float) -> AsyncIterator[Master]:
    log = MemoryLog()
    log.append(size)
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            yield Master(log, nursery, HATimes(**times))  # type: ignore[arg-type]
            nursery.cancel_scope.cancel()


async def test_a_slave_gets_the_log_from_its_end_on_and_then_what_is_appended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_master() as master:
        slave = master.connect(1200)
        await slave.report(1200)
        assert await slave.receive(1300) == master.log.content[1200:]
        master.append(700)
        began = trio.current_time()
        assert await slave.receive(2000) == master.log.content[1200:]
        assert trio.current_time() == began, "it is sent at once, not at the next look"


@pytest.mark.parametrize("batch_size", [1, 12, 32_768])
async def test_frames_have_the_size_of_the_setting_and_never_cross_a_file(
    batch_size: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_master(batch_size=batch_size) as master:
        slave = master.connect(900)
        await slave.report(900)
        assert await slave.receive(1600) == master.log.content[900:]
        assert max(slave.sizes) <= batch_size
        assert batch_size < 1000 or slave.sizes == [100, 1000, 500]


async def test_cold_bytes_are_read_by_a_worker(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        master.log.is_cold = True
        slave = master.connect(1)
        await slave.report(1)
        assert await slave.receive(2499) == master.log.content[1:]
        assert master.log.cold_reads == 3


async def test_reports_acknowledge_what_was_sent(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        slave = master.connect(2000)
        await slave.report(2000)
        await slave.receive(500)
        await slave.report(2300)
        await slave.report(2500)
        await trio.testing.wait_all_tasks_blocked()
        assert master.acknowledged == [-1, 2300, 2500]
        await slave.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert master.service.slaves() == [], "an acknowledgement counts while its connection lives"


async def test_an_idle_slave_gets_heartbeats(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master(heartbeat_s=5.0) as master:
        slave = master.connect(2500)
        await slave.report(2500)
        for beat in (5.0, 10.0):
            assert await slave.heartbeat() == 2500
            assert trio.current_time() == pytest.approx(beat, abs=0.1)
            await slave.report(2500)
        master.append(1)
        assert len(await slave.receive(1)) == 1


async def test_a_silent_slave_is_closed_in_time(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master(housekeeping_s=20.0, heartbeat_s=1e6) as master:
        slave = master.connect(2500)
        await slave.report(2500)
        assert await slave.is_closed()
        assert trio.current_time() == pytest.approx(20, abs=0.1)
    assert "expected a report within 20 s, found silence" in caplog.text


async def test_without_a_request_a_connection_is_no_slave_and_is_sent_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A port scan or health check must not make SYNC_MASTER wait for it."""
    async with a_master(housekeeping_s=20.0) as master:
        scan = master.connect()
        await scan.stream.send_all(b"\0\0\0")
        await trio.testing.wait_all_tasks_blocked()
        assert master.service.slaves() == []
        assert await scan.is_closed()
        assert trio.current_time() == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize(
    ("reports", "expected", "counts"),
    [
        pytest.param([2501], "the slave has 1 bytes that this master lacks", (1, 1, 0), id="ahead"),
        pytest.param([2**40], "that this master lacks", (1, 1, 0), id="absurd"),
        pytest.param([-1], "expected an offset from 0, found -1", (1, 0, 0), id="negative"),
        pytest.param([500], "the files that the slave needs have been deleted", (1, 0, 1), id="behind"),
        pytest.param([2400, 2399], "from 2400, its last one", (1, 0, 0), id="goes back"),
        pytest.param([2400, 2501], "found 2501", (1, 0, 0), id="beyond what was sent"),
    ],
)
async def test_a_report_that_cannot_be_true_ends_its_connection_only(
    reports: list[int],
    expected: str,
    counts: tuple[int, int, int],
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_master() as master:
        master.log.delete_before(1000)
        good = master.connect(2000)
        await good.report(2000)
        await good.receive(500)
        bad = master.connect(reports[0])
        await bad.report(*reports)
        while not await bad.is_closed():
            pass
        statistics = master.service.statistics()
        assert (statistics.refused_count, statistics.ahead_count, statistics.behind_count) == counts
        assert (statistics.connections, statistics.slaves) == (1, 1)
        await good.report(2500)
        await trio.testing.wait_all_tasks_blocked()
        assert master.acknowledged[-1] == 2500
    assert expected in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_slave_whose_next_files_are_deleted_is_told_by_the_end_of_its_connection(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master(size=100) as master:
        slave = master.connect(50)
        await slave.report(50)
        await slave.receive(50)
        master.log.append(2000)
        master.log.delete_before(1000)
        master.service.wake()
        assert await slave.is_closed()
    assert "expected the log from 100 on" in caplog.text


async def test_connections_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        for _ in range(CONNECTIONS_MAX):
            master.connect()
        await trio.testing.wait_all_tasks_blocked()
        assert await master.connect().is_closed()
        assert master.service.statistics().connections == CONNECTIONS_MAX
