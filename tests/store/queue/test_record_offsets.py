"""The queues and keys that a record names, and which of them count."""

from __future__ import annotations

import pytest

from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.queue.record_offsets import NamedUnits, follows, multi_dispatch_properties, queue_offsets_of


def record(topic: str = "T", sys_flag: int = 0, **properties: str) -> CheckedMessage:
    return CheckedMessage(
        RecordStatus.MESSAGE,
        size=200,
        topic=topic,
        queue_id=3,
        queue_offset=7,
        physical_offset=10_000,
        sys_flag=sys_flag,
        properties_text=encode_properties(properties).encode(),
    )


@pytest.mark.parametrize(
    ("message", "places"),
    [
        (record(), [(("T", 3), 7)]),
        (record(sys_flag=4), []),
        (record(sys_flag=8), [(("T", 3), 7)]),
        (record(topic="../T"), []),
        (
            record(INNER_MULTI_DISPATCH="%LMQ%a,B", INNER_MULTI_QUEUE_OFFSET="1,2"),
            [(("T", 3), 7), (("%LMQ%a", 0), 1), (("B", 3), 2)],
        ),
        (record(INNER_MULTI_DISPATCH="a/b,B", INNER_MULTI_QUEUE_OFFSET="1,x"), [(("T", 3), 7)]),
        (record(INNER_MULTI_DISPATCH="B", INNER_MULTI_QUEUE_OFFSET="5000"), [(("T", 3), 7)]),
        (record(INNER_MULTI_DISPATCH="B,C", INNER_MULTI_QUEUE_OFFSET="1"), [(("T", 3), 7)]),
        (record(INNER_MULTI_DISPATCH="B", INNER_MULTI_QUEUE_OFFSET="1,2"), [(("T", 3), 7)]),
        (record(INNER_MULTI_DISPATCH="B,,", INNER_MULTI_QUEUE_OFFSET="1"), [(("T", 3), 7), (("B", 3), 1)]),
        (
            record(INNER_MULTI_DISPATCH="SCHEDULE_TOPIC_XXXX,B", INNER_MULTI_QUEUE_OFFSET="1,2"),
            [(("T", 3), 7), (("B", 3), 2)],
        ),
        (record(INNER_MULTI_DISPATCH="B,B,T", INNER_MULTI_QUEUE_OFFSET="2,3,8"), [(("T", 3), 7), (("B", 3), 2)]),
        (record(INNER_MULTI_DISPATCH="%RETRY%g,%DLQ%g", INNER_MULTI_QUEUE_OFFSET="1,2"), [(("T", 3), 7)]),
    ],
)
def test_places(message: CheckedMessage, places: object) -> None:
    assert queue_offsets_of(message, is_multi_dispatch=True) == places


def test_where_nothing_is_dispatched_no_record_is_in_more_than_its_own_queue() -> None:
    """As in RocketMQ without enableMultiDispatch: the sender may have written these properties."""
    message = record(INNER_MULTI_DISPATCH="%LMQ%a,B", INNER_MULTI_QUEUE_OFFSET="1,2")
    assert queue_offsets_of(message, is_multi_dispatch=False) == [(("T", 3), 7)]


def test_more_queues_are_said_as_they_are_read() -> None:
    more = [(("%LMQ%a", 0), 1), (("B", 3), 2)]
    named = record(**multi_dispatch_properties(more))  # type: ignore[arg-type]
    assert queue_offsets_of(named, is_multi_dispatch=True)[1:] == more
    assert multi_dispatch_properties([]) == {}


def test_a_record_follows_its_predecessor_or_begins_its_queue_again() -> None:
    assert [each for each in range(9) if follows(each, 5, None)] == [0, 5]


def test_records_that_name_a_queue_may_stand_in_between() -> None:
    named = None
    for queue_offset in (5, 6, 9):
        named = NamedUnits.taken(named, 5, queue_offset)
    assert [each for each in range(12) if follows(each, 5, named)] == [0, 5, 6, 7]
    assert [each for each in range(12) if follows(each, 8, named)] == [0, 8], "they count up to the next record"
    for queue_offset in (0, 1):
        named = NamedUnits.taken(named, 5, queue_offset)
    assert [each for each in range(12) if follows(each, 5, named)] == [0, 1, 2, 5, 6, 7]
    named = NamedUnits.taken(named, 8, 8)
    assert [each for each in range(12) if follows(each, 8, named)] == [0, 8, 9]
