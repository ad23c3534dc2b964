from __future__ import annotations

import logging

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.replication.replication_log import MasterLog, SlaveLog
from rocketpy.store.ha.client import HAClientStatistics, HAState
from rocketpy.store.ha.slave_progress import SlaveProgress

END = 5000


@pytest.fixture(autouse=True)
def info_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker")


def a_slave(request: int, acknowledged: int | None = None) -> SlaveProgress:
    slave = SlaveProgress()
    slave.report(request, log_min=0, log_max=END, file_size=1 << 20)
    if acknowledged is not None:
        slave.note_sent(acknowledged)
        slave.report(acknowledged, log_min=0, log_max=END, file_size=1 << 20)
    return slave


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, object]]:
    """Take the lines: level, text, and fields."""
    taken = [(each.levelname, each.getMessage(), each.__dict__["fields"]) for each in caplog.records]
    caplog.clear()
    return taken


async def test_slaves_come_and_go_with_a_line_each(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    slaves: dict[str, SlaveProgress] = {}
    await nursery.start(MasterLog(slaves=lambda: slaves, end_offset=lambda: END).run)
    await trio.sleep(3)
    slaves["10.0.0.2:1"] = a_slave(4000)
    await trio.sleep(3)
    fields = {"slave": "10.0.0.2:1", "offset": 4000, "end": END}
    assert lines(caplog) == [("INFO", "a slave replicates this log", fields)]
    slaves["10.0.0.2:1"] = a_slave(4500)  # another connection from the same port
    await trio.sleep(2)
    assert lines(caplog) == [
        ("WARNING", "a slave has gone", fields),
        ("INFO", "a slave replicates this log", {**fields, "offset": 4500}),
    ]
    slaves.clear()
    await trio.sleep(1.5)
    assert lines(caplog) == [("WARNING", "a slave has gone", {**fields, "offset": 4500})]


async def test_the_lag_of_the_best_slave_is_logged_after_10_s_and_then_every_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    slaves = {"10.0.0.2:1": a_slave(4000), "10.0.0.3:1": a_slave(4000, 4900)}
    await nursery.start(MasterLog(slaves=lambda: slaves, end_offset=lambda: END).run)
    await trio.sleep(9.5)
    lines(caplog)
    await trio.sleep(1)
    assert lines(caplog) == [("INFO", "Slave fall behind master: 100 bytes", {"slaves": 2})]
    await trio.sleep(59)
    assert lines(caplog) == []
    slaves.clear()
    await trio.sleep(1)
    assert lines(caplog)[-1] == ("INFO", f"Slave fall behind master: {END} bytes", {"slaves": 0})


async def test_a_master_that_has_never_had_a_slave_is_silent(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await nursery.start(MasterLog(slaves=dict, end_offset=lambda: END).run)
    await trio.sleep(200)
    assert lines(caplog) == []


async def test_a_slave_logs_each_time_that_it_replicates_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = HAClientStatistics(
        state=HAState.CONNECTING,
        alarm="",
        master_address="10.0.0.1:10912",
        connect_count=1,
        received_bytes=0,
        record_count=0,
    )
    await nursery.start(SlaveLog(statistics=lambda: now, end_offset=lambda: END).run)
    await trio.sleep(3)
    assert lines(caplog) == []
    now = attrs.evolve(now, state=HAState.FOLLOWING)
    await trio.sleep(3)
    line = ("INFO", "this slave replicates its master's log", {"master": "10.0.0.1:10912", "end": END})
    assert lines(caplog) == [line]
    now = attrs.evolve(now, state=HAState.CONNECTING)
    await trio.sleep(3)
    now = attrs.evolve(now, state=HAState.FOLLOWING, connect_count=2)
    await trio.sleep(3)
    assert lines(caplog) == [line]
