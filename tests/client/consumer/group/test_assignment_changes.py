"""Notifications of the program about its queues."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.client.consumer.group import assignment_changes
from rocketpy.client.consumer.group.assignment_changes import AssignmentChange, AssignmentChanges
from rocketpy.protocol.message import MessageQueue

QUEUES = [MessageQueue("T", "b", each) for each in range(3)]


def change(count: int, topic: str = "T") -> AssignmentChange:
    return AssignmentChange(topic, tuple(QUEUES), tuple(QUEUES[:count]))


async def test_an_iterator_begins_with_what_is_assigned_and_waits_for_what_changes() -> None:
    changes = AssignmentChanges()
    changes.note("T", QUEUES, QUEUES[:1])
    seen: list[AssignmentChange] = []

    async def listen() -> None:
        seen.extend([each async for each in changes])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        changes.note("T", QUEUES, QUEUES[:1])
        changes.note("T", QUEUES, QUEUES[:2])
        await trio.testing.wait_all_tasks_blocked()
        changes.close()
    assert seen == [change(1), change(2)]


async def test_a_listener_that_takes_long_sees_the_latest_state_of_each_topic() -> None:
    changes = AssignmentChanges()
    listener = aiter(changes)
    for count in range(4):
        changes.note("T", QUEUES, QUEUES[:count])
        changes.note("U", QUEUES, QUEUES[:count])
    changes.close()
    assert [each async for each in listener] == [change(3), change(3, "U")]


async def test_each_listener_sees_everything() -> None:
    changes = AssignmentChanges()
    listeners = [aiter(changes), aiter(changes)]
    changes.note("T", QUEUES, QUEUES)
    assert [await anext(each) for each in listeners] == [change(3), change(3)]
    assert changes.latest("T") == change(3)
    assert changes.latest("U") is None


async def test_a_listener_that_is_cancelled_misses_nothing() -> None:
    changes = AssignmentChanges()
    listener = aiter(changes)
    with trio.move_on_after(0):
        await anext(listener)
    changes.note("T", QUEUES, QUEUES)
    assert await anext(listener) == change(3)


async def test_topics_that_come_and_go_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment_changes, "EMPTY_CHANGES_MAX", 2)
    changes = AssignmentChanges()
    changes.note("T", QUEUES, QUEUES)
    for number in range(10):
        changes.note(f"T{number}", QUEUES, QUEUES)
        changes.note(f"T{number}", [], [])
    assert changes.latest("T") == change(3)
    assert changes.latest("T7") is None
    listener = aiter(changes)
    assert [(await anext(listener)).topic for _ in range(3)] == ["T", "T8", "T9"]
