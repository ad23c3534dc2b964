"""What a reader makes of a queue whose master is another one, or has been started again."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.message import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def message(queue_offset: int, of: str = "old", **fields: object) -> MessageExt:
    return MessageExt("T", b"x", queue_offset=queue_offset, physical_offset=100 * queue_offset + len(of), **fields)  # type: ignore[arg-type]


class Master:
    """A queue as its master has it."""

    def __init__(self, *messages: MessageExt, min_offset: int = 0, committed: int = 0) -> None:
        self.messages = {each.queue_offset: each for each in messages}
        self.min_offset = min_offset
        self.committed = committed
        self.connection: object | None = "first"
        self.is_routed = True
        self.reads_a_slave = False
        self.looks: list[int] = []

    @property
    def max_offset(self) -> int:
        return max(self.messages, default=self.min_offset - 1) + 1

    def master_connection(self, queue: MessageQueue) -> object | None:
        return self.connection

    def has_master(self, queue: MessageQueue) -> bool:
        return self.is_routed

    async def look_up_master(self, queue: MessageQueue) -> None:
        await trio.lowlevel.checkpoint()
        self.is_routed = True

    def reads_slave(self, queue: MessageQueue) -> bool:
        return self.reads_a_slave

    async def look_at(self, queue: MessageQueue, queue_offset: int) -> PullResult:
        await trio.lowlevel.checkpoint()
        self.looks.append(queue_offset)
        if self.connection is None:
            raise RemotingConnectError("b")
        found = self.messages.get(queue_offset)
        status = PullStatus.NO_NEW_MSG if found is None else PullStatus.FOUND
        if not self.min_offset <= queue_offset <= self.max_offset:
            status = PullStatus.OFFSET_ILLEGAL
        messages = () if found is None else (found,)
        return PullResult(status, messages, queue_offset + 1, self.min_offset, self.max_offset, 0)

    async def begin_offset(self, queue: MessageQueue) -> int:
        await trio.lowlevel.checkpoint()
        return self.committed


def reader(master: Master, begin: int = 0) -> Continuity:
    continuity = Continuity(QUEUE, begin, master, master.begin_offset)
    continuity.assume()
    return continuity


OLD = [message(each) for each in range(5)]


async def test_nothing_is_asked_while_the_connection_is_the_same() -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    assert await continuity.check()
    assert master.looks == []


async def test_while_its_last_message_is_there_a_reader_goes_on_after_it() -> None:
    """From the message on, not from where a filter had brought it: the rest may have been of the tail."""
    master = Master(*OLD, committed=2)
    continuity = reader(master)
    continuity.note(OLD[:4], 4)
    continuity.note([], 5)
    master.connection = "second"
    assert not continuity.is_assured
    assert await continuity.check()
    assert (continuity.next_offset, master.looks, continuity.is_assured) == (4, [3], True)


@pytest.mark.parametrize(
    ("there", "committed", "fallback"),
    [
        ([*OLD[:3], message(3, "another"), message(4, "another"), message(5, "another")], 2, 2),
        (OLD[:3], 2, 2),
        (OLD[:3], 5, 3),  # what a broker of RocketMQ has past the end of its log
        ([], 0, 0),
        ([*OLD[:3], *(message(each, "another") for each in range(3, 9))], 9, 5),
    ],
    ids=["another message is there", "nothing is", "progress past the end", "an empty queue", "progress past the tail"],
)
async def test_when_it_is_gone_the_reader_goes_on_from_the_stored_progress(
    there: list[MessageExt], committed: int, fallback: int
) -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.messages = {each.queue_offset: each for each in there}
    master.connection, master.committed = "second", committed
    assert not await continuity.check()
    assert continuity.fallback == fallback
    assert not await continuity.check(), "until somebody begins again"
    assert not continuity.may_take
    assert len(master.looks) == 1


async def test_a_message_that_was_deleted_with_those_before_it_is_not_missed() -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD[:2], 2)
    master.connection, master.min_offset, master.messages = "second", 4, {4: OLD[4]}
    assert await continuity.check()
    assert continuity.next_offset == 2, "the next pull says that it begins at 4"


@pytest.mark.parametrize(("committed", "fallback"), [(1, 1), (3, None), (9, None)])
async def test_a_reader_that_has_read_nothing_asks_for_the_progress_again(committed: int, fallback: int | None) -> None:
    master = Master(*OLD, committed=committed)
    continuity = reader(master, begin=3)
    master.connection = "second"
    assert await continuity.check() is (fallback is None)
    assert continuity.fallback == fallback
    assert continuity.next_offset == 3


async def test_messages_with_the_offsets_of_another_queue_are_not_looked_at() -> None:
    master = Master()
    continuity = reader(master)
    continuity.note([message(7, properties={"INNER_MULTI_DISPATCH": "T"})], 1)
    master.connection = "second"
    assert await continuity.check()


async def test_a_master_that_is_away_is_missed_unless_a_slave_is_read() -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.connection = None
    with pytest.raises(RemotingConnectError):
        await continuity.may_read()
    master.reads_a_slave = True
    assert await continuity.may_read()
    assert continuity.may_take
    with pytest.raises(RemotingConnectError):
        await continuity.check()
    master.is_routed = False
    assert await continuity.check(), "there is none to ask"


async def test_a_look_that_is_cancelled_here_is_taken_by_the_next() -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.connection = "second"
    with trio.CancelScope() as scope:
        scope.cancel()
        await continuity.check()
    assert not continuity.is_assured
    assert await continuity.check()


async def test_a_master_that_ends_meanwhile_is_looked_at_again() -> None:
    """The answer was of the run before."""
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.connection = "second"
    look = master.look_at

    async def end_after(queue: MessageQueue, queue_offset: int) -> PullResult:
        result = await look(queue, queue_offset)
        if len(master.looks) == 1:
            master.connection = None
        return result

    master.look_at = end_after  # type: ignore[method-assign]
    with pytest.raises(RemotingConnectError):
        await continuity.check()
    master.connection = "third"
    assert await continuity.check()
    assert len(master.looks) == 3


async def test_those_who_ask_at_the_same_time_share_an_answer() -> None:
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.connection = "second"
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(continuity.check)
    assert master.looks == [4]


async def test_a_commit_looks_for_a_master_that_no_route_named_yet() -> None:
    """It would find one, with another log, and tell it progress that the group has on a slave alone."""
    master = Master(*OLD[:2], committed=2)
    master.connection, master.is_routed = None, False
    continuity = reader(master)
    continuity.note(OLD, 5)
    master.connection = "first"
    assert not await continuity.may_commit()
    assert (continuity.fallback, master.looks) == (2, [4])


async def test_a_broker_that_has_less_than_was_read_is_asked_though_the_connection_is_the_same() -> None:
    """An old master that is a slave now has cut its tail, and the client does not know its new master yet."""
    master = Master(*OLD)
    continuity = reader(master)
    continuity.note(OLD, 5)
    del master.messages[3], master.messages[4]
    master.committed = 2
    continuity.note([], 3)
    assert not await continuity.may_commit()
    assert continuity.fallback == 2
