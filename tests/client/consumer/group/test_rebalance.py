"""What is given up and taken, and when: against tables of topics and members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.group.assignment_changes import AssignmentChange
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.protocol.allocation.averagely import AllocateAveragely
from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.message import MessageQueue


def queues(count: int, topic: str = "T") -> list[MessageQueue]:
    return [MessageQueue(topic, "b", each) for each in range(count)]


class World:
    """What is known, and what is assigned to the member ``me``."""

    def __init__(self, strategy: AllocateMessageQueueStrategy | None = None) -> None:
        self.known: dict[str, list[MessageQueue] | None] = {"T": queues(4)}
        self.members: list[str] | None = ["me", "other"]
        self.assigned: set[MessageQueue] = set()
        self.is_complete = True
        self.is_paused = False
        self.unlisted = 0
        self.rounds: list[float] = []
        self.service = RebalanceService(
            group="g",
            client_id="me",
            strategy=strategy,
            knowledge=self,
            assignment=self,
            on_unlisted=self.note_unlisted,
            is_paused=lambda: self.is_paused,
        )

    def note_unlisted(self) -> None:
        self.unlisted += 1

    def topics(self) -> list[str]:
        return list(self.known)

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        await trio.lowlevel.checkpoint()
        return self.known[topic]

    async def member_ids(self, topic: str) -> list[str] | None:
        await trio.lowlevel.checkpoint()
        return self.members

    async def change(self, dropped: Sequence[MessageQueue], added: Sequence[MessageQueue]) -> bool:
        self.rounds.append(trio.current_time())
        assert self.assigned.issuperset(dropped)
        assert self.assigned.isdisjoint(added)
        self.assigned = (self.assigned - set(dropped)) | set(added)
        return self.is_complete


async def test_a_member_takes_its_share_and_gives_up_the_rest() -> None:
    world = World(AllocateAveragely())
    assert await world.service.rebalance()
    assert world.assigned == set(queues(2))
    world.members = ["me"]
    assert await world.service.rebalance()
    assert world.assigned == set(queues(4))
    world.members = ["a", "b", "me"]
    await world.service.rebalance()
    assert world.assigned == {queues(4)[3]}


async def test_without_a_strategy_every_queue_is_taken() -> None:
    world = World()
    world.members = None
    assert await world.service.rebalance()
    assert world.assigned == set(queues(4))


async def test_what_is_not_known_changes_nothing() -> None:
    world = World(AllocateAveragely())
    await world.service.rebalance()
    world.members = None
    assert not await world.service.rebalance()
    assert world.assigned == set(queues(2))
    world.members, world.known["T"] = ["me"], None
    assert not await world.service.rebalance()
    assert world.assigned == set(queues(2))


async def test_a_topic_that_is_left_is_given_up() -> None:
    world = World(AllocateAveragely())
    world.known["U"] = queues(2, "U")
    await world.service.rebalance()
    assert world.assigned == {*queues(2), queues(1, "U")[0]}
    del world.known["T"]
    await world.service.rebalance()
    assert world.assigned == {queues(1, "U")[0]}


async def test_the_program_is_notified_of_what_it_has_after_each_round_that_changed_something() -> None:
    world = World(AllocateAveragely())
    world.known["U"] = queues(1, "U")
    await world.service.rebalance()
    await world.service.rebalance()
    changes = aiter(world.service.changes)
    assert await anext(changes) == AssignmentChange("T", tuple(queues(4)), tuple(queues(2)))
    assert await anext(changes) == AssignmentChange("U", tuple(queues(1, "U")), tuple(queues(1, "U")))
    world.members = ["me"]
    del world.known["U"]
    await world.service.rebalance()
    assert await anext(changes) == AssignmentChange("U", (), ())
    assert await anext(changes) == AssignmentChange("T", tuple(queues(4)), tuple(queues(4)))
    world.service.changes.close()
    assert [each async for each in changes] == []


async def test_a_member_that_is_not_listed_has_no_queues_and_says_that_it_is_there() -> None:
    world = World(AllocateAveragely())
    await world.service.rebalance()
    world.members = ["other"]
    await world.service.rebalance()
    assert world.assigned == set()
    assert world.unlisted == 1


async def test_a_strategy_that_refuses_leaves_its_topic_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = World(AllocateAveragely())
    world.known["U"] = []
    await world.service.rebalance()
    assert world.assigned == set(queues(2))
    assert "allocating the queues of U: mqAll is null or mqAll empty" in caplog.text


async def test_rounds_come_every_twenty_seconds_and_when_woken(autojump_clock: MockClock) -> None:
    world = World(AllocateAveragely())
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.service.run)
        await trio.sleep(21)
        world.service.wake()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert [round(each - begun, 1) for each in world.rounds] == [0.0, 20.1, 21.0]


@pytest.mark.parametrize(
    ("is_known", "expected"),
    [(False, [0, 1, 3, 7, 15, 32, 52]), (True, [0, 1, 3, 7, 11, 16, 20])],
)
async def test_what_could_not_be_done_is_tried_again_after_growing_pauses(
    autojump_clock: MockClock, *, is_known: bool, expected: list[int]
) -> None:
    """A queue that another member has is asked for more often than what no broker says."""
    world = World(AllocateAveragely())
    world.is_complete = not is_known
    if not is_known:
        world.members = None
    begun = trio.current_time()
    with trio.move_on_after(60):
        await world.service.run()
    assert [round(each - begun) for each in world.rounds[:7]] == expected


async def test_what_has_become_known_is_a_reason_to_look_for_more_soon(autojump_clock: MockClock) -> None:
    """A topic comes, with it a broker that meets the group, and it makes the retry topic."""
    world = World()
    world.known = {"T": None, "R": None}
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.service.run)
        await trio.sleep(40)
        world.known["T"] = queues(1)
        await trio.sleep(22)
        nursery.cancel_scope.cancel()
    assert [round(each - begun) for each in world.rounds if each > begun + 32] == [52, 53, 55, 59]


async def test_what_is_asked_for_during_a_round_is_for_the_next(autojump_clock: MockClock) -> None:
    world = World(AllocateAveragely())

    async def change(dropped: Sequence[MessageQueue], added: Sequence[MessageQueue]) -> bool:
        world.rounds.append(trio.current_time())
        if len(world.rounds) == 1:
            world.service.wake()
        return True

    world.change = change  # type: ignore[method-assign]
    with trio.move_on_after(5):
        await world.service.run()
    assert len(world.rounds) == 2
