"""Offsets in memory."""

from __future__ import annotations

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
OTHER = MessageQueue("U", "b", 0)


def test_an_offset_only_increases_unless_it_is_overwritten() -> None:
    table = OffsetTable()
    assert table.get(QUEUE) is None
    table.update(QUEUE, 0)
    assert table.get(QUEUE) == 0
    table.update(QUEUE, 5)
    table.update(QUEUE, 3)
    assert table.get(QUEUE) == 5
    table.update(QUEUE, 3, increase_only=False)
    assert table.get(QUEUE) == 3


def test_offsets_are_listed_by_topic_and_forgotten_by_queue() -> None:
    table = OffsetTable()
    table.update(QUEUE, 5)
    table.update(OTHER, 6)
    assert table.of_topic("T") == {QUEUE: 5}
    assert table.of_topic("") == {QUEUE: 5, OTHER: 6}
    table.forget(QUEUE)
    table.forget(QUEUE)
    assert table.of_topic("") == {OTHER: 6}
