"""The pull loop of one queue, against scripted answers, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.flow_limits import FlowLimits
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.pull_plan import PullPlan, PullRequest, pull_plan
from rocketpy.client.consumer.queue.reader import QueueReader
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.clock import SystemClock
from rocketpy.errors import BrokerError, RemotingTimeoutError, RocketpyError
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def found(*offsets: int, following: int | None = None) -> PullResult:
    messages = tuple(MessageExt("T", b"x", queue_offset=each) for each in offsets)
    next_offset = offsets[-1] + 1 if following is None else following
    return PullResult(PullStatus.FOUND, messages, next_offset, 0, 100, 0)


def empty(status: PullStatus, following: int) -> PullResult:
    return PullResult(status, (), following, 0, 100, 0)


class World:
    """The broker, and the group above the reader. Answers come in turn; then pulls are held for ever."""

    def __init__(self, *answers: PullResult | RocketpyError, plan: PullPlan | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[float, int]] = []
        self.pulls: list[PullRequest] = []
        self.delivered: list[int] = []
        self.fruitless: list[int] = []
        self.anew: list[int] = []
        self.offset: int | None = None
        self.subscription: SubscriptionData | None = SubscriptionData("T", sub_version=7)
        self.gate = PullGate()
        self.known = trio.Event()
        self.connection: object | None = "first"
        self.there = found(0)
        self.committed = 0
        self.fallen_back: list[tuple[float, int]] = []
        self.process_queue = ProcessQueue(QUEUE)
        self.limits = FlowLimits(1000, 100, 2000)
        self.reader = QueueReader(
            process_queue=self.process_queue,
            continuity=Continuity(QUEUE, 0, self, self.begin_offset),
            limits=lambda: self.limits,
            plan=plan or pull_plan(ConsumerConfig()),
            exception_pause_s=1.0,
            puller=self,
            owner=self,
            clock=SystemClock(),
        )

    async def pull(self, pull: PullRequest) -> PullResult:
        self.asked.append((trio.current_time(), pull.queue_offset))
        self.pulls.append(pull)
        if not self.answers:
            await trio.sleep_forever()
        answer = self.answers.pop(0)
        if isinstance(answer, RocketpyError):
            raise answer
        return answer

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        return self.subscription

    def memory_offset(self, queue: MessageQueue) -> int | None:
        return self.offset

    def note_fruitless(self, process_queue: ProcessQueue, next_offset: int) -> None:
        self.fruitless.append(next_offset)

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        self.delivered += [each.queue_offset for each in messages]

    def read_anew(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        self.anew.append(queue_offset)
        process_queue.is_dropped = True

    def master_connection(self, queue: MessageQueue) -> object | None:
        return self.connection

    def has_master(self, queue: MessageQueue) -> bool:
        return True

    def reads_slave(self, queue: MessageQueue) -> bool:
        return False

    async def look_at(self, queue: MessageQueue, queue_offset: int) -> PullResult:
        return self.there

    async def begin_offset(self, queue: MessageQueue) -> int:
        return self.committed

    def fall_back(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        self.fallen_back.append((trio.current_time(), queue_offset))
        process_queue.is_dropped = True

    async def wait_known(self, failure: RocketpyError) -> None:
        await self.known.wait()

    async def run(self, seconds: float, change: Callable[[], object] = lambda: None) -> None:
        """Run the reader for a while; change something after half of it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reader.run)
            await trio.sleep(seconds / 2)
            change()
            await trio.sleep(seconds / 2)
            nursery.cancel_scope.cancel()


async def test_pulls_follow_each_other_and_say_what_is_committed(autojump_clock: MockClock) -> None:
    world = World(found(0, 1), found(2))
    world.offset = 1
    await world.run(0.05)
    assert world.delivered == [0, 1, 2]
    assert [offset for _, offset in world.asked] == [0, 2, 3]
    assert {(each.sys_flag, each.commit_offset) for each in world.pulls} == {(3, 1)}
    assert world.process_queue.message_count == 3


async def test_messages_say_the_ends_of_their_queue(autojump_clock: MockClock) -> None:
    world = World(found(0))
    await world.run(0.05)
    assert world.process_queue.waiting[0].properties == {"MIN_OFFSET": "0", "MAX_OFFSET": "100"}


async def test_what_concerns_nobody_is_passed_only_when_nothing_is_in_flight(autojump_clock: MockClock) -> None:
    world = World(
        empty(PullStatus.NO_MATCHED_MSG, 5), found(5), empty(PullStatus.NO_MATCHED_MSG, 9), found(following=10)
    )
    await world.run(0.05)
    assert world.fruitless == [5]
    assert [offset for _, offset in world.asked] == [0, 5, 6, 9, 10]


async def test_a_broker_that_holds_no_pulls_is_not_asked_without_pause(autojump_clock: MockClock) -> None:
    world = World(*[empty(PullStatus.NO_NEW_MSG, 0)] * 50)
    await world.run(1.05)
    assert len(world.asked) == 11


@pytest.mark.parametrize(
    ("failure", "pause"),
    [
        (BrokerError(ResponseCode.FLOW_CONTROL, "", "b:1"), 0.02),
        (BrokerError(ResponseCode.SYSTEM_ERROR, "", "b:1"), 1.0),
        (RemotingTimeoutError("late"), 1.0),
    ],
)
async def test_after_a_failure_the_pull_is_repeated(
    autojump_clock: MockClock, failure: RocketpyError, pause: float
) -> None:
    world = World(failure, found(0))
    await world.run(4)
    begun = world.asked[0][0]
    assert [(at - begun, offset) for at, offset in world.asked[:2]] == [(0, 0), (pytest.approx(pause), 0)]
    assert world.delivered == [0]


async def test_after_a_failure_the_pull_is_repeated_at_once_when_the_broker_is_back(autojump_clock: MockClock) -> None:
    world = World(RemotingTimeoutError("late"), found(0))
    await world.run(1.0, world.known.set)
    begun = world.asked[0][0]
    assert [(at - begun, offset) for at, offset in world.asked[:2]] == [(0, 0), (pytest.approx(0.5), 0)]


async def test_a_queue_that_has_lost_its_tail_begins_again_when_what_is_here_has_been_handled(
    autojump_clock: MockClock,
) -> None:
    """Until then nothing is read of it, and what is in hand stays in hand."""
    world = World(found(0, 1, 2), found(3))
    world.limits = FlowLimits(2, 100, 2000)
    process_queue = world.process_queue
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.reader.run)
        await trio.sleep(1)
        world.connection, world.there, world.committed = "second", empty(PullStatus.OFFSET_ILLEGAL, 1), 1
        process_queue.remove([process_queue.waiting[0]])
        await trio.sleep(1)
        assert world.fallen_back == []
        assert process_queue.message_count == 2
        process_queue.remove(process_queue.waiting)
        await trio.sleep(1)
    assert [offset for _, offset in world.fallen_back] == [1]
    assert world.delivered == [0, 1, 2], "nothing is read before"


async def test_an_answer_that_a_former_master_gave_is_not_taken(autojump_clock: MockClock) -> None:
    world = World(found(0), found(1), found(1, 2))
    pull = world.pull

    async def change_master(request: PullRequest) -> PullResult:
        if request.queue_offset == 1:
            world.connection = "second"
        return await pull(request)

    world.pull = change_master  # type: ignore[method-assign]
    await world.run(1)
    assert world.delivered == [0, 1, 2]
    assert [offset for _, offset in world.asked] == [0, 1, 1, 3]


async def test_too_much_in_flight_waits_for_an_acknowledgement(autojump_clock: MockClock) -> None:
    world = World(found(0, 1), found(2))
    world.limits = FlowLimits(1, 100, 2000)
    process_queue = world.process_queue
    await world.run(100, lambda: process_queue.remove([process_queue.waiting[0]]))
    assert world.delivered == [0, 1, 2]
    assert world.asked[1][0] - world.asked[0][0] == pytest.approx(50)


async def test_an_acknowledgement_that_is_not_enough_keeps_waiting(autojump_clock: MockClock) -> None:
    world = World(found(0, 1, 2), found(3))
    world.limits = FlowLimits(1, 100, 2000)
    process_queue = world.process_queue
    await world.run(100, lambda: process_queue.remove([process_queue.waiting[0]]))
    assert world.delivered == [0, 1, 2]


async def test_a_suspended_consumer_pulls_nothing(autojump_clock: MockClock) -> None:
    world = World(found(0))
    world.gate.suspend()
    begun = trio.current_time()
    await world.run(100, world.gate.resume)
    assert world.asked[0][0] - begun == pytest.approx(50)
    assert world.delivered == [0]


async def test_a_queue_that_is_paused_while_there_is_no_space_is_not_pulled(autojump_clock: MockClock) -> None:
    world = World(found(0, 1), found(2))
    world.limits = FlowLimits(1, 100, 2000)
    process_queue = world.process_queue

    def pause_and_acknowledge() -> None:
        world.gate.pause([QUEUE])
        process_queue.remove(process_queue.waiting)

    await world.run(100, pause_and_acknowledge)
    assert world.delivered == [0, 1]


async def test_a_lite_pull_goes_on_after_an_illegal_offset_when_all_has_been_polled(autojump_clock: MockClock) -> None:
    plan = PullPlan(
        max_msg_nums=10, suspend_ms=20_000, timeout_s=30, commits=False, sends_subscription=True, is_lite=True
    )
    world = World(found(0), empty(PullStatus.OFFSET_ILLEGAL, 40), plan=plan)
    anew: list[list[int]] = []

    def poll() -> None:
        anew.append(list(world.anew))
        world.process_queue.remove(world.process_queue.waiting)

    await world.run(100, poll)
    assert anew == [[]], "it waits"
    assert world.anew == [40]


async def test_an_illegal_offset_is_for_the_group_and_ends_the_reader(autojump_clock: MockClock) -> None:
    world = World(empty(PullStatus.OFFSET_ILLEGAL, 40))
    with trio.fail_after(5):
        await world.reader.run()
    assert world.anew == [40]
    assert world.fruitless == []


async def test_an_answer_for_a_dropped_queue_is_ignored(autojump_clock: MockClock) -> None:
    world = World(found(0))
    original = world.pull

    async def pull(request: PullRequest) -> PullResult:
        result = await original(request)
        world.process_queue.is_dropped = True
        return result

    world.pull = pull  # type: ignore[method-assign]
    with trio.fail_after(5):
        await world.reader.run()
    assert world.delivered == []


async def test_a_topic_without_subscription_is_looked_at_again_later(autojump_clock: MockClock) -> None:
    world = World(found(0))
    world.subscription = None
    await world.run(10)
    assert world.asked == []


async def test_an_interval_between_pulls_is_kept(autojump_clock: MockClock) -> None:
    world = World(found(0), found(1), plan=pull_plan(ConsumerConfig(pull_interval=500)))
    await world.run(10)
    times = [at for at, _ in world.asked]
    assert times[1] - times[0] == pytest.approx(0.5)
    assert times[2] - times[1] == pytest.approx(0.5)
