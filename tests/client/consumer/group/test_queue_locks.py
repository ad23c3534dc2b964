"""How long a lock is trusted, and what becomes of a queue without one."""

from __future__ import annotations

from collections.abc import Collection

import trio
from trio.testing import MockClock

from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.clock import SystemClock
from rocketpy.protocol.message import MessageQueue

HELD, LOST, UNKNOWN = (MessageQueue("T", "b", each) for each in range(3))


class Brokers:
    """They hold one queue for us, refuse another, and do not answer about the third."""

    async def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        return {HELD}.intersection(queues), {LOST}.intersection(queues)


def locks(*, is_needed: bool = True) -> QueueLocks:
    return QueueLocks(requests=Brokers(), clock=SystemClock(), is_needed=is_needed)  # type: ignore[arg-type]


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


async def test_without_locks_every_queue_is_trusted(autojump_clock: MockClock) -> None:
    free = locks(is_needed=False)
    queue = process_queues(free)[1]
    assert not queue.is_locked
    await trio.sleep(1000)
    assert free.is_trusted(queue)
