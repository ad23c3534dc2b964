"""The waits of SYNC_MASTER under a mock clock: statuses, order, deadlines, and nothing before its burst."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.store.ha.group_transfer import TICK_SECONDS, GroupTransferService
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.store.results import PutMessageStatus

OK, TIMEOUT, NONE = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
)
EXACT_S = 0.02


@attrs.define
class Waits:
    """A service, its slaves, and the answers: (end offset, status, time)."""

    slaves: list[SlaveProgress] = attrs.Factory(list)
    answers: list[tuple[int, PutMessageStatus, float]] = attrs.Factory(list)
    flushes: list[int] = attrs.Factory(list)
    """How many answers there were at each call of ``flush_replies``."""
    bursts: int = 0
    timeout_s: float = 3.0
    service: GroupTransferService = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.service = GroupTransferService(
            slaves=lambda: self.slaves,
            timeout_s=lambda: self.timeout_s,
            fallbehind_max=lambda: 1000,
            end_burst=self.end_burst,
            flush_replies=lambda: self.flushes.append(len(self.answers)),
        )

    @property
    def statuses(self) -> list[tuple[int, PutMessageStatus]]:
        return [(end, status) for end, status, _ in self.answers]

    def end_burst(self) -> None:
        self.bursts += 1

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

    def wait(self, end_offset: int) -> None:
        self.service.wait_replicated(end_offset, lambda status: self.answered(end_offset, status))

    def answered(self, end_offset: int, status: PutMessageStatus) -> None:
        self.answers.append((end_offset, status, trio.current_time()))

    def put(self, *end_offsets: int) -> None:
        """Put messages in a burst of their own."""
        for end_offset in end_offsets:
            self.wait(end_offset)
        self.service.burst_ended()


@pytest.fixture
async def waits(nursery: trio.Nursery) -> Waits:
    waits = Waits()
    await nursery.start(waits.service.run)
    return waits


async def test_a_report_answers_everything_before_it_at_once(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    slave = waits.slave(1000)
    waits.put(1100, 1200, 1300)
    assert waits.answers == []
    waits.report(slave, 1200)
    assert waits.statuses == [(1100, OK), (1200, OK)]
    assert waits.flushes == [2], "one send for all of them, after the callbacks"
    assert waits.service.statistics().waiting == 1
    waits.report(slave, 1300)
    waits.put(1300)
    assert waits.statuses[2:] == [(1300, OK), (1300, OK)], "without waiting for the next report"


async def test_without_a_slave_nothing_waits(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    waits.put(100)
    waits.slaves.append(SlaveProgress())  # a connection without a request
    waits.put(200, 300)
    assert waits.statuses == [(100, NONE), (200, NONE), (300, NONE)]
    assert waits.flushes == [1, 3], "with the other replies of the burst, once for all of them"
    assert waits.service.statistics().unavailable_count == 3


async def test_nothing_is_answered_before_its_burst_is_over(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    """SLAVE_NOT_AVAILABLE, too, promises that the message is stored."""
    waits.wait(100)
    waits.wait(200)
    assert waits.answers == []
    waits.service.acknowledged()
    assert waits.answers == []
    waits.service.burst_ended()
    assert waits.statuses == [(100, NONE), (200, NONE)]
    waits.service.burst_ended()
    assert len(waits.answers) == 2


async def test_a_burst_that_its_caller_does_not_end_is_ended_soon(
    waits: Waits, autojump_clock: trio.testing.MockClock
) -> None:
    await trio.sleep(1)
    waits.wait(100)
    await trio.sleep(EXACT_S)
    assert (waits.statuses, waits.bursts) == ([(100, NONE)], 1)
    await trio.sleep(10)
    assert waits.bursts == 1, "only then"


async def test_a_slave_that_is_too_far_behind_does_not_count(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    waits.slave(1000)
    waits.put(1999, 2000, 2001)
    assert waits.statuses == [(2000, NONE), (2001, NONE)]
    waits.slave(1000, 1500)
    waits.put(2499, 2500)
    assert waits.statuses == [(2000, NONE), (2001, NONE), (2500, NONE)]
    assert waits.service.statistics().waiting == 2


async def test_one_slave_is_enough_and_its_end_ends_what_it_acknowledged(
    waits: Waits, mock_clock: trio.testing.MockClock
) -> None:
    slow, fast = waits.slave(1000), waits.slave(1000, 1600)
    waits.put(1500)
    assert waits.statuses == [(1500, OK)]
    assert waits.service.has(1500)
    waits.slaves.remove(fast)
    assert not waits.service.has(1500)
    waits.put(1500)
    assert len(waits.answers) == 1
    waits.report(slow, 1500)
    assert waits.statuses == [(1500, OK), (1500, OK)]


async def test_a_request_above_the_end_acknowledges_nothing(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    slave = waits.slave(5000, sent=5000)
    waits.put(5001)
    waits.report(slave, 5000)  # its heartbeat
    assert waits.answers == []


async def test_each_request_has_its_own_deadline(waits: Waits, autojump_clock: trio.testing.MockClock) -> None:
    waits.slave(1000)
    waits.put(1100)
    await trio.sleep(1.003)
    waits.put(1200)
    await trio.sleep(5)
    assert waits.statuses == [(1100, TIMEOUT), (1200, TIMEOUT)]
    late = [time - due for (_, _, time), due in zip(waits.answers, (3.0, 4.003), strict=True)]
    assert all(0 <= each <= EXACT_S for each in late), late
    assert TICK_SECONDS <= EXACT_S / 2
    assert waits.service.statistics().timeout_count == 2


async def test_a_timeout_that_changes_counts_for_what_waits_already(
    waits: Waits, autojump_clock: trio.testing.MockClock
) -> None:
    waits.slave(1000)
    waits.put(1100)
    await trio.sleep(1)
    waits.timeout_s = 1.5
    waits.put(1200)
    await trio.sleep(5)
    assert waits.statuses == [(1100, TIMEOUT), (1200, TIMEOUT)]
    assert [time for _, _, time in waits.answers] == pytest.approx([1.5, 2.5], abs=EXACT_S)


async def test_a_timeout_of_zero_gives_a_slave_no_time(waits: Waits, autojump_clock: trio.testing.MockClock) -> None:
    waits.timeout_s = 0
    waits.slave(1000, 1100)
    waits.put(1100, 1200)
    assert waits.statuses == [(1100, OK)]
    await trio.sleep(EXACT_S)
    assert waits.statuses == [(1100, OK), (1200, TIMEOUT)]


async def test_what_a_new_connection_does_not_cover_keeps_its_place_until_its_deadline(
    waits: Waits, autojump_clock: trio.testing.MockClock
) -> None:
    """The slave reconnects with a request beyond the message: nothing shows that the message is the same there."""
    waits.slave(1000)
    waits.put(1100)
    waits.put(1300)
    waits.slaves.clear()
    slave = waits.slave(1200, sent=1300)
    waits.report(slave, 1300)
    assert waits.statuses == [(1300, OK)]
    waits.report(slave, 1300)
    assert waits.statuses == [(1300, OK)]
    await trio.sleep(waits.timeout_s + EXACT_S)
    assert waits.statuses == [(1300, OK), (1100, TIMEOUT)]


async def test_slaves_that_have_different_parts_answer_these_parts(
    waits: Waits, mock_clock: trio.testing.MockClock
) -> None:
    first, second = waits.slave(1000, sent=1200), waits.slave(1400, sent=1600)
    waits.put(1100, 1300, 1500)
    second.report(1600, log_min=0, log_max=1600, file_size=1 << 20)
    waits.report(first, 1200)
    assert waits.statuses == [(1100, OK), (1500, OK)]


async def test_a_request_whose_slave_has_gone_waits_on_until_its_own_deadline(
    waits: Waits, autojump_clock: trio.testing.MockClock
) -> None:
    slave = waits.slave(1000)
    waits.put(1100)
    await trio.sleep(1)
    waits.put(1300)
    waits.service.wait_again(1200, 0.5, lambda status: waits.answered(1200, status))
    waits.report(slave, 1100)
    assert waits.statuses == [(1100, OK)]
    await trio.sleep(10)
    assert waits.statuses[1:] == [(1200, TIMEOUT), (1300, TIMEOUT)]
    assert [time for _, _, time in waits.answers[1:]] == pytest.approx([3.5, 4], abs=EXACT_S)


async def test_of_requests_for_the_same_end_the_earlier_one_is_over_first(
    waits: Waits, autojump_clock: trio.testing.MockClock
) -> None:
    waits.slave(1000)
    await trio.sleep(2)
    waits.put(1200)
    waits.service.wait_again(1200, 1.0, lambda status: waits.answered(1200, status))
    await trio.sleep(1.5)
    waits.service.wait_again(1200, 2.5, lambda status: waits.answered(1200, status))
    await trio.sleep(10)
    assert waits.statuses == [(1200, TIMEOUT)] * 3
    assert [time for _, _, time in waits.answers] == pytest.approx([4, 5, 5.5], abs=EXACT_S)


async def test_what_waits_at_the_end_can_be_given_up(waits: Waits, mock_clock: trio.testing.MockClock) -> None:
    slave = waits.slave(1000)
    waits.put(1100)
    waits.wait(1200)
    waits.service.give_up()
    assert (waits.statuses, waits.bursts) == ([(1100, TIMEOUT), (1200, TIMEOUT)], 1)
    waits.report(slave, 1200)
    assert len(waits.answers) == 2
    assert waits.service.statistics().waiting == 0


async def test_after_the_service_nothing_is_called_back(mock_clock: trio.testing.MockClock) -> None:
    waits = Waits()
    async with trio.open_nursery() as nursery:
        await nursery.start(waits.service.run)
        slave = waits.slave(1000)
        waits.put(1100)
        waits.wait(1200)
        nursery.cancel_scope.cancel()
    waits.report(slave, 1200)
    waits.service.burst_ended()
    assert waits.answers == []


async def test_a_burst_of_many_and_their_report_cost_little_for_each(
    waits: Waits, mock_clock: trio.testing.MockClock
) -> None:
    """Reports look at what they answer, not at all that waits: 100,000 requests are answered in 1000 reports."""
    slave = waits.slave(0, sent=10_000)
    steps = 0

    class CountedEnds(int):
        """An offset that counts comparisons, which is what a search costs."""

        def __lt__(self, other: int) -> bool:
            nonlocal steps
            steps += 1
            return int(self) < int(other)

        def __gt__(self, other: int) -> bool:
            nonlocal steps
            steps += 1
            return int(self) > int(other)

    waits.timeout_s = 1e9
    ends = [CountedEnds(10 + end // 100) for end in range(90_000)]
    for end in ends:
        waits.service.wait_replicated(end, lambda status: None)
    waits.service.burst_ended()
    for offset in range(10, 910):
        waits.report(slave, offset)
    assert waits.service.statistics().answered_count == 90_000
    assert len(waits.flushes) == 900
    assert steps < 900 * 100, "a few comparisons for each report"
