"""Long polling under a mock clock: which pulls are woken, when, and in which order."""

from __future__ import annotations

import weakref

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.pull.long_polling import PULLS_PER_SLICE, SLICE_SECONDS, PullRequestHoldService
from rocketpy.broker.pull.request import PullRequest
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import SerializeType
from rocketpy.remoting.connection import Connection
from tests.broker.message_broker import pull_header
from tests.forgotten import is_forgotten
from tests.remoting.test_connection import NotingTransport, make_connection


@attrs.define
class Consumer:
    """Pulls, and the answers they got: (opaque, time was up)."""

    connection: Connection
    transport: NotingTransport
    matches: bool = True
    answered: list[tuple[int, bool]] = attrs.Factory(list)
    tried: int = 0
    failing: set[int] = attrs.Factory(set)
    takes: float = 0.0  # busy seconds of each try
    clock: BusyClock | None = None

    def pull(self, opaque: int, *, queue_id: int = 0, suspend_s: float = 15.0) -> PullRequest:
        self.connection.count_deferred()
        return PullRequest(
            connection=self.connection,
            opaque=opaque,
            serialize_type=SerializeType.JSON,
            is_oneway=False,
            header=pull_header(topic="T", queue_id=queue_id),
            queue_offset=0,
            message_filter=None,
            group_config=SubscriptionGroupConfig("G"),
            deadline=trio.current_time() + suspend_s,
            resume=self.resume,
        )

    def resume(self, pull: PullRequest, expired: bool) -> bool:
        self.tried += 1
        if self.clock is not None:
            self.clock.seconds += self.takes
        if pull.opaque in self.failing:
            self.connection.drop_deferred()
            raise ValueError("a hook or a bug")
        if not self.matches and not expired:
            pull.queue_offset += 1
            return False
        self.answered.append((pull.opaque, expired))
        self.connection.reply_deferred(b"answer")
        return True


def hold(service: PullRequestHoldService, pull: PullRequest) -> None:
    assert service.suspend(pull, bytes_max=1 << 20, connection_bytes_max=1 << 20)


@pytest.fixture
def consumer() -> Consumer:
    return Consumer(*make_connection())


@pytest.fixture
async def service(nursery: trio.Nursery) -> PullRequestHoldService:
    service = PullRequestHoldService()
    await nursery.start(service.run)
    return service


async def test_on_a_slave_the_task_serves_and_sends(nursery: trio.Nursery, consumer: Consumer) -> None:
    """Messages arrive from the master there, and no burst of requests ends after that."""
    service = PullRequestHoldService(serves_itself=True)
    await nursery.start(service.run)
    hold(service, consumer.pull(1))
    service.message_arriving("T", 7, 5)
    await trio.testing.wait_all_tasks_blocked()
    assert consumer.answered == []
    service.message_arriving("T", 0, 5)
    assert consumer.answered == []
    await trio.testing.wait_all_tasks_blocked()
    assert consumer.answered == [(1, False)]
    assert consumer.transport.flushed > 0


async def test_all_pulls_are_tried_when_other_accounts_count(
    service: PullRequestHoldService, consumer: Consumer
) -> None:
    service.wake_all()
    await trio.testing.wait_all_tasks_blocked()
    for number in range(3):
        hold(service, consumer.pull(number))
    service.wake_all()
    assert consumer.answered == [], "the task does it"
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(consumer.answered) == [(0, False), (1, False), (2, False)]


async def test_pulls_of_a_closed_connection_are_dropped(
    service: PullRequestHoldService, consumer: Consumer, autojump_clock: trio.testing.MockClock
) -> None:
    other = Consumer(*make_connection())
    hold(service, consumer.pull(1))
    hold(service, other.pull(2))
    service.drop_connection(consumer.connection)
    assert service.statistics().held == 1
    other.connection.close()
    await trio.sleep(16)  # at its deadline the sweep finds the message, although no arrival was reported
    assert service.statistics().held == 0
    assert service.statistics().dropped_count == 2
    assert consumer.answered == other.answered == []


async def test_many_woken_pulls_are_served_in_slices_by_the_task(
    service: PullRequestHoldService, consumer: Consumer
) -> None:
    """A burst serves one slice; the rest must not delay other connections, and must not be lost."""
    for opaque in range(10 * PULLS_PER_SLICE):
        hold(service, consumer.pull(opaque, queue_id=opaque))
        service.message_arriving("T", opaque, 1)
    service.serve_woken()
    assert len(consumer.answered) == PULLS_PER_SLICE
    await trio.testing.wait_all_tasks_blocked()
    assert len(consumer.answered) == 10 * PULLS_PER_SLICE
    assert consumer.connection.deferred_count == 0


async def test_pulls_end_in_time_although_others_are_woken_all_the_time(
    consumer: Consumer, service: PullRequestHoldService, autojump_clock: trio.testing.MockClock
) -> None:
    """There is always more to serve than one slice holds."""
    hold(service, consumer.pull(1, queue_id=9, suspend_s=1.0))
    others = Consumer(*make_connection(), matches=False)
    for _ in range(PULLS_PER_SLICE + 1):
        hold(service, others.pull(0, queue_id=1))
        hold(service, others.pull(0, queue_id=2))
    until = trio.current_time() + 2.5
    while trio.current_time() < until:
        service.message_arriving("T", 1, 1)
        service.message_arriving("T", 2, 1)
        service.serve_woken()
        await trio.sleep(0.1)
    assert consumer.answered == [(1, True)]


async def test_a_pull_with_much_time_goes_on_waiting(
    consumer: Consumer, service: PullRequestHoldService, autojump_clock: trio.testing.MockClock
) -> None:
    pulls = [consumer.pull(1, suspend_s=1e15), consumer.pull(2, suspend_s=300)]
    references = [weakref.ref(pull) for pull in pulls]
    while pulls:
        hold(service, pulls.pop(0))
    await trio.sleep(299)
    assert (consumer.tried, service.statistics().held) == (0, 2)
    await trio.sleep(2)
    assert consumer.answered == [(2, True)]
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert consumer.answered == [(2, True), (1, False)]
    assert [is_forgotten(each) for each in references] == [True, True], "nothing is kept of pulls that were answered"


# ---- failures --------------------------------------------------------------------------------------------------------


async def test_a_pull_that_fails_ends_alone(
    service: PullRequestHoldService, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    consumer.failing = {2}
    for opaque in (1, 2, 3):
        hold(service, consumer.pull(opaque))
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert consumer.answered == [(1, False), (3, False)]
    assert service.statistics().held == 0
    (record,) = [record for record in caplog.records if record.exc_info is not None]
    assert record.getMessage().startswith("the pull of 10.1.2.3:4567 that was held failed unexpectedly")


async def test_a_connection_whose_sending_fails_does_not_end_the_others(
    service: PullRequestHoldService, consumer: Consumer
) -> None:
    def fails(connection: Connection) -> None:
        raise ValueError("a bug of the driver")

    broken = Consumer(*make_connection())
    broken.transport.flush = fails  # type: ignore[method-assign]
    hold(service, broken.pull(1))
    hold(service, consumer.pull(2))
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert (broken.answered, consumer.answered) == ([(1, False)], [(2, False)])
    assert service.statistics().held == 0


# ---- bounds ----------------------------------------------------------------------------------------------------------


class BusyClock:
    """A clock of processor time: the sum of what the tried pulls take."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_slice_ends_when_its_time_is_over_also_within_one_queue(
    consumer: Consumer, nursery: trio.Nursery
) -> None:
    """A pull may take milliseconds: its filter matches hundreds of messages that arrived together."""
    clock = BusyClock()
    service = PullRequestHoldService(busy_seconds=clock)
    await nursery.start(service.run)
    consumer.takes, consumer.clock = 0.6 * SLICE_SECONDS, clock
    for opaque in range(7):
        hold(service, consumer.pull(opaque))
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert len(consumer.answered) == 3, "the clock is asked after the first one"
    hold(service, consumer.pull(7))  # which has seen what has arrived
    await trio.testing.wait_all_tasks_blocked()
    assert [opaque for opaque, _ in consumer.answered] == list(range(7))
    assert service.statistics().held == 1


async def test_what_arrives_while_a_queue_is_being_served_wakes_all_its_pulls_once_more(
    consumer: Consumer, nursery: trio.Nursery
) -> None:
    clock = BusyClock()
    service = PullRequestHoldService(busy_seconds=clock)
    await nursery.start(service.run)
    consumer.takes, consumer.clock, consumer.matches = SLICE_SECONDS, clock, False
    for opaque in range(5):
        hold(service, consumer.pull(opaque))
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert 0 < consumer.tried < 5
    consumer.matches = True
    service.message_arriving("T", 0, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(opaque for opaque, _ in consumer.answered) == list(range(5))


async def test_pulls_that_end_together_let_others_have_their_turn(
    consumer: Consumer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    clock = BusyClock()
    service = PullRequestHoldService(busy_seconds=clock)
    await nursery.start(service.run)
    consumer.takes, consumer.clock = SLICE_SECONDS, clock
    turns: list[int] = []

    async def others() -> None:
        await trio.sleep(1.5)  # when the service looks
        while len(consumer.answered) < 6:
            turns.append(len(consumer.answered))
            await trio.lowlevel.checkpoint()

    for opaque in range(6):
        hold(service, consumer.pull(opaque, suspend_s=1.0))
    nursery.start_soon(others)
    await trio.sleep(5)
    assert len(consumer.answered) == 6
    assert len({count for count in turns if count}) >= 2, turns


async def test_a_pull_beyond_either_limit_is_not_held(service: PullRequestHoldService, consumer: Consumer) -> None:
    other = Consumer(*make_connection())
    for opaque, (each, size, bytes_max, connection_bytes_max, is_held) in enumerate(
        (
            (consumer, 10, 10, 10, True),
            (consumer, 1, 100, 10, False),
            (consumer, 1, 10, 100, False),
            (other, 10, 19, 10, False),
            (other, 10, 20, 10, True),
        )
    ):
        pull = each.pull(opaque)
        pull.held_bytes = size
        assert service.suspend(pull, bytes_max, connection_bytes_max) == is_held
    assert (service.held_bytes, service.statistics().held) == (20, 2)
    assert [service.held_bytes_of(each.connection) for each in (consumer, other)] == [10, 10]
    service.message_arriving("T", 0, 1)
    service.serve_woken()
    assert (consumer.answered, other.answered, service.held_bytes) == ([(0, False)], [(4, False)], 0)
    assert [service.held_bytes_of(each.connection) for each in (consumer, other)] == [0, 0]
