"""The stream over a source of plain lists: order, ends, progress, failures. No sockets, no real time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.consumer.message_stream import MessageStream, StreamPlan, open_message_stream
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.start import Start
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingConnectError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.patience import until

FIRST, SECOND, THIRD = (MessageQueue("T", "a", number) for number in range(3))
BATCH = 3


class Source:
    """Queues as lists; ``failures`` are raised by pulls, each once."""

    def __init__(self, *queues: MessageQueue) -> None:
        self.lists: dict[MessageQueue, list[MessageExt]] = {queue: [] for queue in queues}
        self.failures: list[RocketpyError] = []
        self.committed: list[tuple[MessageQueue, int]] = []
        self.pulls = 0
        self.holds_pulls = True
        self.is_routed = True
        self.is_matched: Callable[[MessageExt], bool] = lambda message: True
        self.begins: dict[MessageQueue, int] = defaultdict(int)
        self.stored: dict[MessageQueue, int] = {}
        self.run: object = "first"
        self._arrival = trio.Event()

    def watch(self, queue: MessageQueue, queue_offset: int) -> Continuity:
        async def stored(_: MessageQueue) -> int:
            return self.stored[queue]

        return Continuity(queue, queue_offset, self, stored)

    def master_connection(self, queue: MessageQueue) -> object | None:
        return self.run

    def has_master(self, queue: MessageQueue) -> bool:
        return True

    def reads_slave(self, queue: MessageQueue) -> bool:
        return False

    async def look_at(self, queue: MessageQueue, queue_offset: int) -> PullResult:
        messages = self.lists[queue]
        result = await self.pull(queue, queue_offset)
        return attrs.evolve(result, max_offset=len(messages))

    def put(self, queue: MessageQueue, *bodies: bytes, store_timestamp: int = 0) -> None:
        for body in bodies:
            self.lists[queue].append(
                MessageExt("T", body, queue_offset=len(self.lists[queue]), store_timestamp=store_timestamp)
            )
        self._arrival.set()
        self._arrival = trio.Event()

    async def queues(self, topic: str) -> list[MessageQueue]:
        if not self.lists or not self.is_routed:
            raise ClientError(10005, f"No route info of this topic: {topic}")
        return list(self.lists)

    async def pull(
        self, queue: MessageQueue, queue_offset: int, *, expression: str = "*", suspend_ms: int = 0
    ) -> PullResult:
        await trio.lowlevel.checkpoint()
        self.pulls += 1
        if self.failures:
            raise self.failures.pop(0)
        messages = self.lists[queue]
        if suspend_ms and self.holds_pulls:
            with trio.move_on_after(suspend_ms / 1000):
                while queue_offset == len(messages):
                    await self._arrival.wait()
        if queue_offset > len(messages):
            return _result(PullStatus.OFFSET_ILLEGAL, (), len(messages))
        window = messages[queue_offset : queue_offset + BATCH]
        found = tuple(each for each in window if self.is_matched(each))
        if found:
            return _result(PullStatus.FOUND, found, queue_offset + len(window))
        status = PullStatus.NO_MATCHED_MSG if window else PullStatus.NO_NEW_MSG
        return _result(status, (), queue_offset + len(window))

    async def start_offset(self, queue: MessageQueue, start: Start) -> int:
        await trio.lowlevel.checkpoint()
        if start == Start.stored() and queue in self.stored:
            return self.stored[queue]
        return len(self.lists[queue]) if start == Start.end() else self.begins[queue]

    async def max_offset(self, queue: MessageQueue) -> int:
        await trio.lowlevel.checkpoint()
        return len(self.lists[queue])

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        await trio.lowlevel.checkpoint()
        self.committed.append((queue, consumer_offset))


def _result(status: PullStatus, messages: tuple[MessageExt, ...], following: int) -> PullResult:
    return PullResult(status, messages, following, 0, 0, 0)


TO_END = StreamPlan(
    topic="T",
    queues=None,
    start=Start.beginning(),
    expression="*",
    until_end=True,
    suspend_ms=15_000,
    retry_pause_s=1.0,
    new_queues_interval_s=30.0,
)
FOLLOWING = attrs.evolve(TO_END, until_end=False)


async def rest(stream: MessageStream) -> list[bytes]:
    return [message.body async for message in stream]


async def some(stream: MessageStream, count: int) -> list[bytes]:
    return [(await anext(stream)).body for _ in range(count)]


def numbers(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


async def test_every_queue_comes_whole_and_in_order() -> None:
    source = Source(FIRST, SECOND)
    source.put(FIRST, *numbers(10, "x"))
    source.put(SECOND, *numbers(7, "y"))
    async with open_message_stream(source, TO_END, source.watch) as stream:
        found = await rest(stream)
    assert [each for each in found if each.startswith(b"x")] == numbers(10, "x")
    assert [each for each in found if each.startswith(b"y")] == numbers(7, "y")
    assert len(found) == 17


async def test_the_end_is_where_the_queues_ended_when_it_was_opened() -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(4))
    async with open_message_stream(source, TO_END, source.watch) as stream:
        source.put(FIRST, b"late")
        assert await rest(stream) == numbers(4)


async def test_a_queue_that_loses_its_tail_is_read_again_from_what_is_stored(autojump_clock: MockClock) -> None:
    """Its new messages have the offsets of the lost ones, and what was processed of these is no progress."""
    source = Source(FIRST)
    source.put(FIRST, *numbers(6), store_timestamp=1)
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        assert await some(stream, 4) == numbers(4)
        await stream.commit()
        del source.lists[FIRST][2:]
        source.put(FIRST, *numbers(6, "new "), store_timestamp=2)
        source.run, source.stored[FIRST] = "second", 1
        await stream.commit()
        assert [offset for _, offset in source.committed] == [4], "not before it is known what is there"
        assert await some(stream, 3) == [b"4", b"5", b"1"], "what is in hand stays in hand"
        await stream.commit()
        assert await some(stream, 6) == numbers(6, "new ")
        await stream.commit()
        assert [offset for _, offset in source.committed] == [4, 2, 8]


async def test_what_was_processed_of_a_lost_tail_is_no_progress_once_the_queue_is_read_again(
    autojump_clock: MockClock,
) -> None:
    source = Source(FIRST, SECOND)
    source.put(FIRST, *numbers(4), store_timestamp=1)
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        assert await some(stream, 4) == numbers(4)
        source.put(SECOND, b"other")
        assert await some(stream, 1) == [b"other"]
        del source.lists[FIRST][1:]
        source.put(FIRST, *numbers(3, "new "), store_timestamp=2)
        source.run, source.stored[FIRST] = "second", 1
        await trio.sleep(60)
        await stream.commit(with_last=False)
        assert source.committed == []


async def test_an_end_is_found_though_nothing_matches_before_it() -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(40))
    source.is_matched = lambda message: message.queue_offset == 20
    async with open_message_stream(source, TO_END, source.watch) as stream:
        assert await rest(stream) == [b"20"]
        await stream.commit()
    assert source.committed == [(FIRST, 40)], "a skipped message counts as processed too"


async def test_empty_queues_end_at_once() -> None:
    source = Source(FIRST, SECOND)
    async with open_message_stream(source, TO_END, source.watch) as stream:
        assert await rest(stream) == []
    assert source.pulls == 0


async def test_following_sees_what_is_sent_after_it_was_opened(autojump_clock: MockClock) -> None:
    source = Source(FIRST, SECOND)
    source.put(FIRST, b"old")
    async with open_message_stream(source, attrs.evolve(FOLLOWING, start=Start.end()), source.watch) as stream:
        source.put(SECOND, b"new")
        assert await some(stream, 1) == [b"new"]
        source.put(FIRST, b"newer")
        assert await some(stream, 1) == [b"newer"]


async def test_following_chosen_queues_only(autojump_clock: MockClock) -> None:
    source = Source(FIRST, SECOND)
    source.put(FIRST, b"first")
    source.put(SECOND, b"second")
    async with open_message_stream(source, attrs.evolve(FOLLOWING, queues=[SECOND]), source.watch) as stream:
        assert await some(stream, 1) == [b"second"]
        source.lists[THIRD] = []
        source.put(THIRD, b"third")
        with trio.move_on_after(100):
            await some(stream, 1)
            raise AssertionError("a queue that was not chosen")


async def test_following_takes_in_queues_that_the_topic_gets(autojump_clock: MockClock) -> None:
    source = Source(FIRST)
    async with open_message_stream(source, attrs.evolve(FOLLOWING, start=Start.end()), source.watch) as stream:
        source.lists[SECOND] = []
        source.put(SECOND, b"in a new queue")
        with trio.fail_after(31):
            assert await some(stream, 1) == [b"in a new queue"]


async def test_only_messages_stored_since_the_wanted_time_come() -> None:
    """A broker answers a search by time with the nearest message, which may be older."""
    source = Source(FIRST)
    source.put(FIRST, b"older", store_timestamp=999)
    source.put(FIRST, b"at", store_timestamp=1000)
    source.put(FIRST, b"later", store_timestamp=1001)
    async with open_message_stream(source, attrs.evolve(TO_END, start=Start.at_time(1000)), source.watch) as stream:
        assert await rest(stream) == [b"at", b"later"]


async def test_a_message_is_done_when_the_next_one_is_asked_for() -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(5))
    async with open_message_stream(source, TO_END, source.watch) as stream:
        await stream.commit()
        assert source.committed == []
        await some(stream, 2)
        await stream.commit(with_last=False)
        assert source.committed == [(FIRST, 1)]
        await stream.commit()
        assert source.committed == [(FIRST, 1), (FIRST, 2)]
        await stream.commit()
        assert source.committed == [(FIRST, 1), (FIRST, 2)], "nothing has changed"
        await some(stream, 1)
        await stream.commit(with_last=False)
        assert source.committed[2:] == [], "the third is not done"
        assert await rest(stream) == [b"3", b"4"]
        await stream.commit(with_last=False)
        assert source.committed[2:] == [(FIRST, 5)]


async def test_another_task_does_not_commit_the_message_that_is_being_handled(nursery: trio.Nursery) -> None:
    """A task that commits now and then knows nothing of the message that the loop has in its hands."""
    source = Source(FIRST)
    source.put(FIRST, *numbers(5))
    async with open_message_stream(source, TO_END, source.watch) as stream:
        handled = [await anext(stream)]
        done: list[list[tuple[MessageQueue, int]]] = []

        async def commit(**arguments: bool) -> None:
            await stream.commit(**arguments)
            done.append(list(source.committed))

        nursery.start_soon(commit)
        await until(lambda: len(done) == 1)
        assert done[-1] == [], "the first message is being handled"
        handled.append(await anext(stream))
        nursery.start_soon(commit)
        await until(lambda: len(done) == 2)
        assert done[-1] == [(FIRST, 1)]
        nursery.start_soon(partial(commit, with_last=True))
        await until(lambda: len(done) == 3)
        assert done[-1] == [(FIRST, 1), (FIRST, 2)], "who says so knows that it is done"
        handled.append(await anext(stream))
        await stream.commit()
        assert source.committed[-1] == (FIRST, 3), "the task that iterates has handled what it has"


async def test_progress_beyond_the_end_of_a_queue_is_corrected(autojump_clock: MockClock) -> None:
    """A broker that lost its last messages answers OFFSET_ILLEGAL and where the queue ends now."""
    source = Source(FIRST)
    source.put(FIRST, *numbers(2))
    source.begins[FIRST] = 100
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        with trio.move_on_after(1):
            await some(stream, 1)
        source.put(FIRST, b"2")
        assert await some(stream, 1) == [b"2"]
        await stream.commit()
    assert source.committed == [(FIRST, 3)]


@pytest.mark.parametrize(
    "failure",
    [
        RemotingConnectError("cannot connect to a"),
        BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "a"),
        BrokerError(ResponseCode.FLOW_CONTROL, "slower", "a"),
        BrokerError(ResponseCode.SERVICE_NOT_AVAILABLE, "stopping", "a"),
        ClientError(10003, "The broker[a] not exist"),
    ],
)
async def test_following_outlives_what_may_pass(
    failure: RocketpyError, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(2))
    source.failures = [failure, failure, failure]
    begun = trio.current_time()
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        assert await some(stream, 2) == numbers(2)
    assert trio.current_time() - begun == pytest.approx(3)
    assert len(caplog.records) == 1, "one outage, one warning"
    assert "trying again" in caplog.text


@pytest.mark.parametrize(
    "failure",
    [
        BrokerError(ResponseCode.TOPIC_NOT_EXIST, "topic not exist", "a"),
        BrokerError(ResponseCode.NO_PERMISSION, "no", "a"),
        BrokerError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "what", "a"),
        RemoteProtocolError("garbage"),
    ],
)
async def test_following_ends_by_what_does_not_pass(failure: RocketpyError, autojump_clock: MockClock) -> None:
    source = Source(FIRST, SECOND)
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        source.put(FIRST, b"0")
        assert await some(stream, 1) == [b"0"]
        source.failures = [failure]
        with pytest.raises(type(failure)) as caught:
            await rest(stream)
    assert caught.value is failure


async def test_reading_to_the_end_fails_where_following_would_wait() -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(2))
    source.failures = [RemotingConnectError("cannot connect to a")]
    with pytest.raises(RemotingConnectError, match="cannot connect to a"):
        async with open_message_stream(source, TO_END, source.watch) as stream:
            await rest(stream)


async def test_what_came_before_a_failure_is_handed_out() -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(BATCH + 1))
    found: list[bytes] = []

    async with open_message_stream(source, TO_END, source.watch) as stream:
        found.append((await anext(stream)).body)
        source.failures = [BrokerError(ResponseCode.NO_PERMISSION, "no", "a")] * 2
        with pytest.raises(BrokerError):
            async for message in stream:
                found.append(message.body)
    assert found in (numbers(BATCH), numbers(BATCH + 1)), "the pull after the first may have been made already"


async def test_a_broker_that_does_not_hold_pulls_is_not_hammered(autojump_clock: MockClock) -> None:
    source = Source(FIRST)
    source.holds_pulls = False
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        with trio.move_on_after(10):
            await some(stream, 1)
    assert source.pulls <= 102


async def test_pulling_ahead_is_bounded(autojump_clock: MockClock) -> None:
    source = Source(FIRST)
    source.put(FIRST, *numbers(1000))
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        await some(stream, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert source.pulls <= 18
        assert stream.has_ready


async def test_nothing_is_ready_when_everything_has_been_handed_out(autojump_clock: MockClock) -> None:
    source = Source(FIRST)
    source.put(FIRST, b"0", b"1")
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        assert not stream.has_ready
        await some(stream, 1)
        assert stream.has_ready
        await some(stream, 1)
        assert not stream.has_ready


async def test_the_blocks_own_exception_leaves_as_it_is() -> None:
    source = Source(FIRST)
    with pytest.raises(KeyError, match="mine"):
        async with open_message_stream(source, FOLLOWING, source.watch):
            raise KeyError("mine")


async def test_an_abandoned_stream_has_ended() -> None:
    source = Source(FIRST)
    source.put(FIRST, b"0")
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        pass
    assert await rest(stream) in ([], [b"0"])


async def test_looking_for_new_queues_may_fail_now_and_then(autojump_clock: MockClock) -> None:
    source = Source(FIRST)
    source.put(FIRST, b"0")
    async with open_message_stream(source, FOLLOWING, source.watch) as stream:
        assert await some(stream, 1) == [b"0"]
        source.is_routed = False
        with trio.move_on_after(40):
            await some(stream, 1)
        source.is_routed = True
        source.lists[SECOND] = []
        source.put(SECOND, b"1")
        with trio.fail_after(31):
            assert await some(stream, 1) == [b"1"]


@pytest.mark.parametrize(("start", "expected"), [("stored", b"2"), ("beginning", b"0"), ("end", b"0")])
async def test_a_queue_whose_broker_was_away_goes_on_from_the_groups_progress(
    start: str, expected: bytes, autojump_clock: MockClock
) -> None:
    """It is new to this stream, and not to the group."""
    source = Source(FIRST)
    source.stored[SECOND] = 2
    async with open_message_stream(source, attrs.evolve(FOLLOWING, start=Start.of(start)), source.watch) as stream:
        source.lists[SECOND] = []
        source.put(SECOND, b"0", b"1", b"2")
        with trio.fail_after(31):
            assert (await some(stream, 1))[0] == expected


async def test_a_bug_in_a_task_is_not_taken_for_the_end() -> None:
    source = Source(FIRST)
    del source.lists[FIRST]
    plan = attrs.evolve(FOLLOWING, queues=[FIRST], start=Start.beginning())
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_message_stream(source, plan, source.watch) as stream:
            assert await rest(stream) == []
    assert caught.value.subgroup(KeyError) is not None
