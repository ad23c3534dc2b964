"""Queues of a program's choice, and offsets that are sought before their queue is read."""

from __future__ import annotations

from collections.abc import Iterable

from rocketpy.client.consumer.lite_pull.chosen_queues import ChosenQueues, SoughtOffsets
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.protocol.message import MessageQueue

QUEUES = [MessageQueue("T", "b", each) for each in range(3)]
OTHER = MessageQueue("A", "b", 0)


async def test_the_choice_is_what_a_rebalance_learns() -> None:
    chosen = ChosenQueues()
    assert chosen.topics() == []
    chosen.choose([QUEUES[1], OTHER, QUEUES[0], QUEUES[1]])
    assert chosen.topics() == ["A", "T"]
    assert await chosen.queues("T") == QUEUES[:2]
    assert await chosen.queues("unknown") == []
    assert await chosen.member_ids("T") is None
    assert chosen.chosen == [OTHER, *QUEUES[:2]]
    chosen.choose(QUEUES[2:])
    assert chosen.chosen == QUEUES[2:]


class Begins:
    """Every queue begins at 5, but for those that are not known."""

    def __init__(self) -> None:
        self.asked: list[MessageQueue] = []
        self.meanwhile = lambda: None

    async def find(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        self.asked = list(queues)
        self.meanwhile()
        return {queue: 5 for queue in self.asked if queue != QUEUES[2]}


async def test_a_queue_begins_where_the_program_has_sought_it_once() -> None:
    begins, progress = Begins(), OffsetTable()
    sought = SoughtOffsets(begins, progress)
    sought.seek(QUEUES[0], 9)
    sought.seek(OTHER, 7)
    assert await sought.find(QUEUES) == {QUEUES[0]: 9, QUEUES[1]: 5}
    assert begins.asked == QUEUES[1:]
    assert progress.of_topic("") == {QUEUES[0]: 9}, "the next commit stores it, as in Java"
    assert await sought.find(QUEUES[:1]) == {QUEUES[0]: 5}


async def test_what_is_sought_while_the_offsets_are_looked_up_counts() -> None:
    begins = Begins()
    sought = SoughtOffsets(begins, OffsetTable())
    begins.meanwhile = lambda: sought.seek(QUEUES[1], 2)
    assert await sought.find(QUEUES[:2]) == {QUEUES[0]: 5, QUEUES[1]: 2}


async def test_what_was_sought_of_a_queue_that_is_no_longer_chosen_is_forgotten() -> None:
    sought = SoughtOffsets(Begins(), OffsetTable())
    sought.seek(QUEUES[0], 9)
    sought.keep_only([QUEUES[1]])
    assert await sought.find(QUEUES[:1]) == {QUEUES[0]: 5}
