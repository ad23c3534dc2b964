"""Units made from records: what is there is left alone, what is missing is made, a gap is said."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.consume_queue_table import ConsumeQueueTable
from rocketpy.store.log_dispatcher import LogDispatcher, QueueGap
from rocketpy.store.mapped_file import OpenFiles
from tests.store.parts import Place


def table_at(place: Place) -> ConsumeQueueTable:
    return ConsumeQueueTable(
        path=place.consume_queue, disk=place.disk, open_files=OpenFiles(disk=place.disk, open_max=16), file_size=400
    )


def dispatcher_for(table: ConsumeQueueTable) -> LogDispatcher:
    return LogDispatcher(queues=table, tags_code=lambda topic, properties, stored_ms: len(properties["TAGS"]))


def record(queue_offset: int, physical_offset: int, *, topic: str = "T", sys_flag: int = 0) -> CheckedMessage:
    return CheckedMessage(
        RecordStatus.MESSAGE, 100, topic, 0, queue_offset, physical_offset, sys_flag, 1, 2, 0, b"TAGS\x01abc"
    )


def test_units_follow_their_records(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table)
    dispatcher.dispatch([record(0, 0), record(0, 100, topic="U"), record(1, 200)], is_from_beginning=True)
    assert table.find("T", 0).unit_at(1) == (200, 100, 3)
    assert table.find("U", 0).unit_at(0) == (100, 100, 3)
    assert (dispatcher.unit_count, dispatcher.first_offset) == (3, 0)
    assert set(table.unflushed) == {table.find("T", 0), table.find("U", 0)}


def test_units_that_are_trusted_are_left_alone(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table)
    queue = table.find("T", 0)
    dispatcher.dispatch([record(0, 0), record(1, 100)], is_from_beginning=True)
    again = dispatcher_for(table)
    again.trust(queue, 200)
    assert again.built_end("T", 0) == 200
    again.dispatch([record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=False)
    assert (queue.max_offset, again.unit_count, again.first_offset) == (3, 1, 200)


def test_a_gap_is_said_unless_nothing_can_be_done(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table)
    dispatcher.dispatch([record(0, 0)], is_from_beginning=True)
    with pytest.raises(QueueGap) as raised:
        dispatcher.dispatch([record(5, 500)], is_from_beginning=False)
    assert raised.value.queue is table.find("T", 0)
    dispatcher.dispatch([record(5, 500), record(6, 600)], is_from_beginning=True)
    queue = table.find("T", 0)
    assert (queue.min_offset, queue.max_offset, queue.unit_at(5)[0]) == (5, 7, 500)


def test_a_queue_that_begins_anew_forgets_what_it_had(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table)
    dispatcher.dispatch([record(0, 0), record(1, 100), record(0, 200), record(1, 300)], is_from_beginning=True)
    queue = table.find("T", 0)
    assert (queue.max_offset, queue.unit_at(0)[0], queue.unit_at(1)[0]) == (2, 200, 300)


def test_records_from_before_a_deletion_stay_deleted(place: Place) -> None:
    table = table_at(place)
    table.deleted_before["T"] = 200
    dispatcher_for(table).dispatch([record(7, 0), record(8, 100), record(0, 200)], is_from_beginning=True)
    assert table.find("T", 0).unit_at(0)[0] == 200


def test_the_tags_code_that_is_there_is_kept_if_the_unit_is_the_record_s(place: Place) -> None:
    """It may be a time of delivery, which only its writer knew."""
    table = table_at(place)
    queue = table.find("T", 0)
    dispatcher_for(table).dispatch([record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=True)
    place.write(place.queue_file("T", 0), (777).to_bytes(8, "big"), 20 + 12)
    place.write(place.queue_file("T", 0), (888).to_bytes(8, "big"), 40 + 12)
    place.write(place.queue_file("T", 0), (201).to_bytes(8, "big"), 40)
    queue.rewind(0)
    dispatcher_for(table).dispatch([record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=True)
    assert [queue.unit_at(each) for each in range(3)] == [(0, 100, 3), (100, 100, 777), (200, 100, 3)]


def test_records_without_a_queue_offset_have_no_unit(place: Place) -> None:
    table = table_at(place)
    dispatcher_for(table).dispatch([record(0, 0, sys_flag=0x4), record(0, 100, sys_flag=0xC)], is_from_beginning=True)
    assert table.get("T", 0) is None
