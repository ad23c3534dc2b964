"""Pieces from their pull to their poll: order, progress, what is skipped, and when the readers are held."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from rocketpy.client.consumer.lite_pull.pulled_messages import PulledMessages
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.patience import PATIENCE_SECONDS

QUEUES = [MessageQueue("T", "b", each) for each in range(2)]


class World:
    """Room for three pieces of two messages."""

    def __init__(self) -> None:
        self.gate = PullGate()
        self.progress = OffsetTable()
        self.pulled = PulledMessages(gate=self.gate, progress=self.progress, piece_size=2, messages_max=6)
        self.process_queues = [ProcessQueue(each) for each in QUEUES]

    @property
    def is_open(self) -> bool:
        return self.gate.is_open(QUEUES[0])

    def deliver(self, *offsets: int, number: int = 0) -> None:
        process_queue = self.process_queues[number]
        messages = [MessageExt("T", b"x", queue_offset=each, queue_id=number) for each in offsets]
        self.pulled.deliver(process_queue, process_queue.put(messages), 0.0)

    def polled(self) -> list[int] | None:
        return offsets(self.pulled.take_nowait())


def offsets(messages: Sequence[MessageExt] | None) -> list[int] | None:
    return None if messages is None else [each.queue_offset for each in messages]


def test_a_poll_returns_one_piece_and_notes_how_far_its_queue_has_come() -> None:
    world = World()
    world.deliver(0, 1)
    world.deliver(7, number=1)
    world.deliver(3)
    assert world.progress.get(QUEUES[0]) is None
    assert world.polled() == [0, 1]
    assert world.progress.get(QUEUES[0]) == 3, "nothing that concerns the group is between the pieces"
    assert world.polled() == [7]
    assert world.progress.get(QUEUES[1]) == 8
    assert world.polled() == [3]
    assert world.polled() is None
    assert world.progress.get(QUEUES[0]) == 4
    assert not world.process_queues[0].message_count


@pytest.mark.parametrize("flag", ["is_dropped", "is_leaving"])
def test_pieces_of_a_queue_that_is_gone_are_skipped(flag: str) -> None:
    world = World()
    world.deliver(0)
    world.deliver(5, number=1)
    setattr(world.process_queues[0], flag, True)
    assert world.polled() == [5]
    assert world.progress.get(QUEUES[0]) is None


def test_the_readers_are_held_while_there_is_more_than_all_queues_may_have() -> None:
    world = World()
    for offset in range(3):
        world.deliver(offset)
    assert world.is_open
    world.deliver(3)
    assert not world.is_open
    world.polled()
    assert world.is_open


def test_what_will_never_be_polled_holds_nobody_and_is_forgotten() -> None:
    world = World()
    for offset in range(3):
        world.deliver(offset)
    world.process_queues[0].is_dropped = True
    world.deliver(0, number=1)
    assert world.is_open
    assert world.polled() == [0]
    assert world.polled() is None


async def test_a_poll_waits_for_a_piece_and_one_that_is_cancelled_loses_none() -> None:
    world = World()
    with trio.move_on_after(0.001):
        await world.pulled.take()
    found: list[list[int] | None] = []

    async def poll() -> None:
        found.append(offsets(await world.pulled.take()))

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll)
            nursery.start_soon(poll)
            await trio.testing.wait_all_tasks_blocked()
            world.deliver(0)
            await trio.testing.wait_all_tasks_blocked()
            assert found == [[0]], "the other waits on"
            world.deliver(1)
    assert found == [[0], [1]]


async def test_polls_end_when_the_consumer_has_left() -> None:
    world = World()
    async with trio.open_nursery() as nursery:

        async def poll() -> None:
            with pytest.raises(trio.EndOfChannel):
                await world.pulled.take()

        nursery.start_soon(poll)
        await trio.testing.wait_all_tasks_blocked()
        world.pulled.close()
    with pytest.raises(trio.EndOfChannel):
        world.pulled.take_nowait()
    await world.pulled.wait_idle(world.process_queues[0])
