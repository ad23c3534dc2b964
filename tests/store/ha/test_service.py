"""The service over streams in memory: which connections are slaves, and which are closed for what they report."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rocketpy.store.ha.service import CONNECTIONS_MAX
from tests.store.ha.master import a_master


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


async def test_slaves_are_shown_by_their_addresses(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        slave = master.connect(2400)
        await slave.report(2400)
        master.connect()
        await slave.receive(100)
        await slave.report(2500)
        await trio.testing.wait_all_tasks_blocked()
        assert {peer: each.acknowledged_offset for peer, each in master.service.slaves_by_peer().items()} == {
            "10.0.0.0:1": 2500
        }


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


async def test_connections_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        for _ in range(CONNECTIONS_MAX):
            master.connect()
        await trio.testing.wait_all_tasks_blocked()
        assert await master.connect().is_closed()
        assert master.service.statistics().connections == CONNECTIONS_MAX
