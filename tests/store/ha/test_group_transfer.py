"""The waits of SYNC_MASTER under a clock that stands still: statuses, order and deadlines."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.store.ha.group_transfer import GroupTransferService
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.store.results import PutMessageStatus

OK, TIMEOUT, NONE = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
)


@attrs.define
class Waits:
    """A service, its slaves, and the answers: (end offset, status, time)."""

    slaves: list[SlaveProgress] = attrs.Factory(list)
    answers: list[tuple[int, PutMessageStatus, float]] = attrs.Factory(list)
    flushes: int = 0
    service: GroupTransferService = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.service = GroupTransferService(
            slaves=lambda: self.slaves, timeout_s=lambda: 3.0, fallbehind_max=lambda: 1000, flush_replies=self.flush
        )

    def flush(self) -> None:
        self.flushes += 1

    def slave(self, request: int, acknowledged: int | None = None, *, sent: int = 10_000) -> SlaveProgress:
        slave = SlaveProgress()
        slave.report(request, log_min=0, log_max=sent, file_size=1 << 20)
        slave.note_sent(sent)
        self.slaves.append(slave)
        if acknowledged is not None:
            self.report(slave, acknowledged)
        return slave

    def report(self, slave: SlaveProgress, offset: int) -> None:
        slave.report(offset, log_min=0, log_max=10_000, file_size=1 << 20)
        self.service.acknowledged()

    def put(self, end_offset: int) -> PutMessageStatus | None:
        return self.service.wait_replicated(
            end_offset, lambda status: self.answers.append((end_offset, status, trio.current_time()))
        )


@pytest.fixture
async def waits(nursery: trio.Nursery) -> Waits:
    waits = Waits()
    await nursery.start(waits.service.run)
    return waits


async def test_a_report_answers_everything_before_it_at_once(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    slave = waits.slave(1000)
    assert [waits.put(end) for end in (1100, 1200, 1300)] == [None, None, None]
    waits.report(slave, 1200)
    assert [(end, status) for end, status, _ in waits.answers] == [(1100, OK), (1200, OK)]
    assert waits.flushes == 1, "one send for all of them"
    assert waits.put(1150) is OK, "without waiting for the next report"
    assert waits.service.statistics().waiting == 1


async def test_without_a_slave_nothing_waits(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    assert waits.put(100) is NONE
    waits.slaves.append(SlaveProgress())  # a connection without a request
    assert waits.put(100) is NONE
    assert waits.service.statistics().unavailable_count == 2


async def test_a_slave_that_is_too_far_behind_does_not_count(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    waits.slave(1000)
    assert waits.put(1999) is None
    assert waits.put(2000) is NONE
    waits.slave(1000, 1500)
    assert waits.put(2499) is None
    assert waits.put(2500) is NONE


async def test_one_slave_is_enough_and_its_end_ends_what_it_acknowledged(
    waits: Waits, mock_clock: trio.testing.MockClock
) -> None:
    slow, fast = waits.slave(1000), waits.slave(1000, 1600)
    assert waits.put(1500) is OK
    waits.slaves.remove(fast)
    assert waits.put(1500) is None
    waits.report(slow, 1500)
    assert [status for _, status, _ in waits.answers] == [OK]


async def test_a_request_above_the_end_acknowledges_nothing(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    slave = waits.slave(5000, sent=5000)
    assert waits.put(5001) is None
    waits.report(slave, 5000)  # its heartbeat
    assert waits.answers == []


async def test_each_request_has_its_own_deadline(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    waits.slave(1000)
    waits.put(1100)
    mock_clock.jump(1.0)
    waits.put(1200)
    for _ in range(100):
        mock_clock.jump(0.05)
        await trio.testing.wait_all_tasks_blocked()
    assert [(end, status) for end, status, _ in waits.answers] == [(1100, TIMEOUT), (1200, TIMEOUT)]
    assert [time for _, _, time in waits.answers] == pytest.approx([3.0, 4.0], abs=0.1)
    assert waits.service.statistics().timeout_count == 2


async def test_what_a_new_connection_does_not_cover_keeps_its_place_until_its_deadline(
    waits: Waits, mock_clock: trio.testing.MockClock
) -> None:
    """The slave reconnects with a request beyond the message: nothing shows that the message is the same there."""
    waits.slave(1000)
    waits.put(1100)
    waits.put(1300)
    waits.slaves.clear()
    slave = waits.slave(1200, sent=1300)
    waits.report(slave, 1300)
    assert [(end, status) for end, status, _ in waits.answers] == [(1300, OK)]
    slave.note_compared()
    waits.report(slave, 1300)
    assert [(end, status) for end, status, _ in waits.answers] == [(1300, OK), (1100, OK)]
