"""How long a lock is trusted, and what becomes of a queue without one."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.group import queue_locks
from rocketpy.client.consumer.group.queue_locks import GRACE_SECONDS, QueueLocks
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.clock import SystemClock
from rocketpy.errors import RemotingConnectError, RemotingRefusedError
from rocketpy.protocol.message import MessageQueue
from tests.forgotten import sizes_within

HELD, LOST, UNKNOWN = (MessageQueue("T", name, 0) for name in ("broker-a", "broker-b", "broker-c"))


@attrs.define(eq=False)
class Link:
    """A connection to a broker."""

    is_closed: bool = False


class Brokers:
    """They hold one queue for us, refuse another, and do not answer about the third."""

    def __init__(self) -> None:
        self.holders = {HELD: "we", LOST: "another"}
        self.away = {"broker-c"}
        self.stopped: set[str] = set()
        self.links: dict[str, Link] = {}
        self.asked: list[tuple[float, str]] = []

    async def master_address(self, queue: MessageQueue) -> str:
        return queue.broker_name

    async def connect(self, address: str) -> Link:
        if address in self.stopped:
            raise RemotingRefusedError(address)
        if address in self.away:
            raise RemotingConnectError(address)
        link = self.links.get(address)
        if link is None or link.is_closed:
            link = self.links[address] = Link()
        return link

    async def lock(self, address: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        await self.connect(address)
        self.asked.append((trio.current_time(), address))
        return {each for each in queues if self.holders.setdefault(each, "we") == "we"}

    async def unlock(self, address: str, queues: Collection[MessageQueue]) -> None:
        for each in queues:
            self.holders.pop(each, None)

    def restart(self, locks: QueueLocks, address: str) -> None:
        """The broker forgets its locks, and its connections end."""
        self.holders = {queue: holder for queue, holder in self.holders.items() if queue.broker_name != address}
        self.links[address].is_closed = True
        locks.connection_ended(address)


def locks(brokers: Brokers | None = None, *, is_needed: bool = True) -> QueueLocks:
    return QueueLocks(requests=brokers or Brokers(), clock=SystemClock(), is_needed=is_needed)


def process_queues(locks: QueueLocks) -> list[ProcessQueue]:
    found = [ProcessQueue(each) for each in (HELD, LOST, UNKNOWN)]
    for each in found:
        locks.note_locked(each)
    return found


async def test_a_lock_is_trusted_for_thirty_seconds(autojump_clock: MockClock) -> None:
    held = locks()
    first = process_queues(held)[0]
    assert first.is_locked
    await trio.sleep(30)
    assert held.is_trusted(first)
    await trio.sleep(0.1)
    assert not held.is_trusted(first)


async def test_locks_are_renewed_and_what_is_refused_is_lost(autojump_clock: MockClock) -> None:
    held = locks()
    every = process_queues(held)
    lost: list[MessageQueue] = []
    with trio.move_on_after(25):
        await held.run(lambda: every, lambda each: lost.append(each.queue))
    assert lost == [LOST]
    assert [held.is_trusted(each) for each in every] == [True, False, True]
    await trio.sleep(6)
    assert [held.is_trusted(each) for each in every] == [True, False, False]


async def test_a_lock_that_no_broker_confirms_is_lost_when_it_is_not_trusted_any_more(
    autojump_clock: MockClock,
) -> None:
    held = locks()
    unknown = process_queues(held)[2]
    lost: list[MessageQueue] = []
    with trio.move_on_after(41):
        await held.run(lambda: [unknown], lambda each: lost.append(each.queue))
    assert lost == [UNKNOWN]


async def test_a_lock_whose_broker_does_not_run_is_not_lost(autojump_clock: MockClock) -> None:
    """It gives it to no other member, and to none but its holder in its first seconds."""
    brokers = Brokers()
    held = locks(brokers)
    queue = ProcessQueue(HELD)
    lost: list[ProcessQueue] = []
    await held.acquire([HELD])
    held.note_locked(queue)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.run, lambda: [queue], lost.append)
        await trio.sleep(19)
        brokers.stopped = {"broker-a"}
        brokers.restart(held, "broker-a")
        await trio.sleep(100)
        assert not held.is_trusted(queue)
        brokers.stopped.clear()
        await trio.sleep(0.6)
        assert held.is_trusted(queue)
        assert not lost
        nursery.cancel_scope.cancel()


async def test_without_locks_every_queue_is_trusted(autojump_clock: MockClock) -> None:
    free = locks(is_needed=False)
    queue = process_queues(free)[1]
    assert not queue.is_locked
    await trio.sleep(1000)
    assert free.is_trusted(queue)
    assert await free.acquire([LOST, UNKNOWN]) == {LOST, UNKNOWN}
    await free.release([LOST, UNKNOWN])


async def test_locks_are_taken_from_each_broker_and_given_back(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    assert await held.acquire([HELD, LOST, UNKNOWN]) == {HELD}
    await held.release([HELD, UNKNOWN])
    assert brokers.holders == {LOST: "another"}


async def test_a_lock_is_not_trusted_from_the_end_of_its_connection_until_it_is_confirmed_again(
    autojump_clock: MockClock,
) -> None:
    """The broker may have restarted, and then it has forgotten the lock."""
    brokers = Brokers()
    held = locks(brokers)
    (mine,) = await held.acquire([HELD])
    queue = ProcessQueue(mine)
    held.note_locked(queue)
    lost: list[ProcessQueue] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.run, lambda: [queue], lost.append)
        await trio.sleep(5)
        brokers.away.add("broker-a")
        brokers.restart(held, "broker-a")
        assert not held.is_trusted(queue)
        await trio.sleep(5)
        assert not held.is_trusted(queue)
        brokers.away.clear()
        came_back_at = trio.current_time()
        await trio.sleep(0.6)
        assert held.is_trusted(queue)
        assert brokers.holders[HELD] == "we"
        nursery.cancel_scope.cancel()
    assert brokers.asked[-1][0] - came_back_at <= 0.5
    assert not lost


async def test_a_lock_in_doubt_that_another_member_has_got_is_lost(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    await held.acquire([HELD])
    queue = ProcessQueue(HELD)
    held.note_locked(queue)
    lost: list[ProcessQueue] = []
    with trio.move_on_after(5):
        brokers.restart(held, "broker-a")
        brokers.holders[HELD] = "another"
        await held.run(lambda: [queue], lost.append)
    assert lost == [queue]
    assert len(brokers.asked) == 2, "not asked again and again"


async def test_a_broker_that_is_back_is_first_asked_by_those_that_held_its_locks(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    await held.acquire([HELD])
    brokers.restart(held, "broker-a")
    other = MessageQueue("T", "broker-a", 1)
    await trio.sleep(100)
    began_at = trio.current_time()
    assert await held.acquire([other]) == {other}
    assert trio.current_time() - began_at >= GRACE_SECONDS
    began_at = trio.current_time()
    assert await held.acquire([HELD]) == {HELD}, "by now every holder has come"
    assert trio.current_time() == began_at


async def test_a_broker_that_ends_meanwhile_begins_another_grace_period(autojump_clock: MockClock) -> None:
    """Its holders come first after the second restart too."""
    brokers = Brokers()
    held = locks(brokers)
    await held.acquire([HELD])
    brokers.restart(held, "broker-a")
    other, third = (MessageQueue("T", "broker-a", number) for number in (1, 2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.acquire, [other])
        await trio.sleep(GRACE_SECONDS / 2)
        brokers.restart(held, "broker-a")
    began_at = trio.current_time()
    assert await held.acquire([third]) == {third}
    assert trio.current_time() - began_at >= GRACE_SECONDS


async def test_a_grace_period_that_is_cancelled_here_is_waited_for_by_the_next(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    await held.acquire([HELD])
    brokers.restart(held, "broker-a")
    began_at = trio.current_time()
    with trio.move_on_after(GRACE_SECONDS / 2):
        await held.acquire([MessageQueue("T", "broker-a", 1)])
    other = MessageQueue("T", "broker-a", 2)
    assert await held.acquire([other]) == {other}
    assert trio.current_time() - began_at >= GRACE_SECONDS


async def test_a_broker_that_was_away_when_a_member_joined_is_not_hurried_either(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    assert await held.acquire([UNKNOWN]) == set()
    brokers.away.clear()
    began_at = trio.current_time()
    assert await held.acquire([UNKNOWN]) == {UNKNOWN}
    assert trio.current_time() - began_at >= GRACE_SECONDS


async def test_addresses_and_queues_that_have_gone_have_a_bound(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_locks, "AWAY_MAX", 3)
    held = locks()
    assert await held.acquire([HELD]) == {HELD}
    for number in range(10):
        held.connection_ended(f"gone-{number}")
    assert sizes_within(held)["QueueLocks._back_at"] == 3


async def test_a_queue_that_is_lost_is_not_remembered(autojump_clock: MockClock) -> None:
    brokers = Brokers()
    held = locks(brokers)
    await held.acquire([HELD])
    brokers.holders[HELD] = "another"
    await held.renew([ProcessQueue(HELD)], lambda _: None)
    assert sizes_within(held)["QueueLocks._confirmed_on"] == 0
