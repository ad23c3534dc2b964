"""Units made from records: what is there is left alone, what is missing is made, a gap is said."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.dispatcher import LogDispatcher, LostUnit, QueueGap
from rocketpy.store.recovery.queue_recovery import QueueRecoveries
from tests.store.one_queue import recoveries_of, table_at
from tests.store.parts import Place


def dispatcher_for(table: ConsumeQueueTable, place: Place, recoveries: QueueRecoveries | None = None) -> LogDispatcher:
    return LogDispatcher(
        queues=table,
        recoveries=recoveries or recoveries_of(table, place),
        tags_code=lambda topic, properties, stored_ms: len(properties["TAGS"]),
        is_multi_dispatch=True,
    )


def record(queue_offset: int, physical_offset: int, *, topic: str = "T", sys_flag: int = 0) -> CheckedMessage:
    return CheckedMessage(
        RecordStatus.MESSAGE, 100, topic, 0, queue_offset, physical_offset, sys_flag, 1, 2, 0, b"TAGS\x01abc"
    )


def test_units_follow_their_records(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    dispatcher.dispatch([record(0, 0), record(0, 100, topic="U"), record(1, 200)], is_from_beginning=True)
    assert table.find("T", 0).unit_at(1) == (200, 100, 3)
    assert table.find("U", 0).unit_at(0) == (100, 100, 3)
    assert (dispatcher.unit_count, dispatcher.first_offset) == (3, 0)
    assert set(table.unflushed) == {table.find("T", 0), table.find("U", 0)}


def test_units_that_are_trusted_are_left_alone(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    queue = table.find("T", 0)
    dispatcher.dispatch([record(0, 0), record(1, 100)], is_from_beginning=True)
    recoveries = recoveries_of(table, place)
    recoveries.find("T", 0).built_end = 200
    again = dispatcher_for(table, place, recoveries)
    assert again.built_end("T", 0) == 200
    again.dispatch([record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=False)
    assert (queue.max_offset, again.unit_count, again.first_offset) == (3, 1, 200)


def test_a_gap_is_said_unless_nothing_can_be_done(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    dispatcher.dispatch([record(0, 0)], is_from_beginning=True)
    with pytest.raises(QueueGap) as raised:
        dispatcher.dispatch([record(5, 500)], is_from_beginning=False)
    assert raised.value.recovery.queue is table.find("T", 0)
    dispatcher.dispatch([record(5, 500), record(6, 600)], is_from_beginning=True)
    queue = table.find("T", 0)
    assert (queue.min_offset, queue.max_offset, queue.unit_at(5)[0]) == (5, 7, 500)


def test_a_queue_that_starts_over_drops_its_state(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    dispatcher.dispatch([record(0, 0), record(1, 100), record(0, 200), record(1, 300)], is_from_beginning=True)
    queue = table.find("T", 0)
    assert (queue.max_offset, queue.unit_at(0)[0], queue.unit_at(1)[0]) == (2, 200, 300)


def test_records_from_before_a_deletion_stay_deleted(place: Place) -> None:
    table = table_at(place)
    table.deleted_before["T"] = 200
    dispatcher_for(table, place).dispatch([record(7, 0), record(8, 100), record(0, 200)], is_from_beginning=True)
    assert table.find("T", 0).unit_at(0)[0] == 200


def test_the_tags_code_that_is_there_is_kept_if_the_unit_is_the_record_s(place: Place) -> None:
    """It may be a time of delivery, which only its writer knew."""
    table = table_at(place)
    queue = table.find("T", 0)
    dispatcher_for(table, place).dispatch([record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=True)
    place.write(place.queue_file("T", 0), (777).to_bytes(8, "big"), 20 + 12)
    place.write(place.queue_file("T", 0), (888).to_bytes(8, "big"), 40 + 12)
    place.write(place.queue_file("T", 0), (201).to_bytes(8, "big"), 40)
    recoveries = recoveries_of(table, place)
    recoveries.find("T", 0).rewind(0)
    dispatcher_for(table, place, recoveries).dispatch(
        [record(0, 0), record(1, 100), record(2, 200)], is_from_beginning=True
    )
    assert [queue.unit_at(each) for each in range(3)] == [(0, 100, 3), (100, 100, 777), (200, 100, 3)]


def test_records_without_a_queue_offset_have_no_unit(place: Place) -> None:
    table = table_at(place)
    dispatcher_for(table, place).dispatch(
        [record(0, 0, sys_flag=0x4), record(0, 100, sys_flag=0xC)], is_from_beginning=True
    )
    assert table.get("T", 0) is None


# ---- queues that a record of another topic names --------------------------------------------------------------------


def naming(name: str, offset: int, physical_offset: int, queue_offset: int = 0) -> CheckedMessage:
    properties = f"TAGS\x01abc\x02INNER_MULTI_DISPATCH\x01{name}\x02INNER_MULTI_QUEUE_OFFSET\x01{offset}".encode()
    return CheckedMessage(RecordStatus.MESSAGE, 100, "Other", 0, queue_offset, physical_offset, 0, 1, 2, 0, properties)


def five_of_t(dispatcher: LogDispatcher) -> None:
    dispatcher.dispatch([record(number, 10_000 + 100 * number) for number in range(5)], is_from_beginning=True)


@pytest.mark.parametrize("offset", [0, 3, 4])
@pytest.mark.parametrize("is_from_beginning", [True, False])
def test_no_other_topic_moves_a_queue_back(place: Place, offset: int, is_from_beginning: bool) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    five_of_t(dispatcher)
    dispatcher.dispatch([naming("T", offset, 20_000)], is_from_beginning=is_from_beginning)
    dispatcher.dispatch([record(5, 21_000)], is_from_beginning=is_from_beginning)
    queue = table.find("T", 0)
    assert [queue.unit_at(each)[0] for each in range(6)] == [10_000, 10_100, 10_200, 10_300, 10_400, 21_000]


def test_no_other_topic_moves_a_queue_forward_when_all_was_looked_for(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    five_of_t(dispatcher)
    with pytest.raises(QueueGap):
        dispatcher.dispatch([naming("T", 9, 20_000)], is_from_beginning=False)
    dispatcher.dispatch([naming("T", 9, 20_000), record(5, 21_000)], is_from_beginning=True)
    queue = table.find("T", 0)
    assert (queue.min_offset, queue.max_offset, queue.unit_at(5)[0]) == (0, 6, 21_000)


def test_what_another_topic_has_put_into_a_queue_its_own_record_replaces(place: Place) -> None:
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    dispatcher.dispatch([naming("T", 50, 9_000)], is_from_beginning=True)
    assert table.find("T", 0).max_offset == 51, "a queue whose first messages have expired may begin so"
    five_of_t(dispatcher)
    queue = table.find("T", 0)
    assert [queue.unit_at(each)[0] for each in range(queue.min_offset, queue.max_offset)] == [
        10_000, 10_100, 10_200, 10_300, 10_400
    ]  # fmt: skip


def test_a_light_queue_goes_on_where_messages_are_missing(place: Place) -> None:
    """It has no topic whose records could say so."""
    table = table_at(place)
    dispatcher = dispatcher_for(table, place)
    dispatcher.dispatch(
        [naming("%LMQ%a", 0, 10_000), naming("%LMQ%a", 7, 10_100, 1), naming("%LMQ%a", 2, 10_200, 2)],
        is_from_beginning=True,
    )
    queue = table.find("%LMQ%a", 0)
    assert (queue.min_offset, queue.max_offset, queue.unit_at(7)[0]) == (7, 8, 10_100)


def test_a_deleted_topic_gets_nothing_back_from_records_that_name_it(place: Place) -> None:
    table = table_at(place)
    table.deleted_before["T"] = 10_100
    dispatcher_for(table, place).dispatch(
        [naming("T", 7, 10_000), naming("T", 0, 10_100, 1), record(1, 10_200)], is_from_beginning=True
    )
    queue = table.find("T", 0)
    assert [queue.unit_at(each)[0] for each in range(queue.max_offset)] == [10_100, 10_200]


def test_a_message_that_names_its_own_queue_is_in_it_once(place: Place) -> None:
    table = table_at(place)
    dispatcher_for(table, place).dispatch([naming("Other", 0, 0), naming("Other,T", 1, 100, 1)], is_from_beginning=True)
    assert table.find("Other", 0).max_offset == 2


def test_a_lost_unit_is_said_before_it_is_made(place: Place) -> None:
    table = table_at(place)
    dispatcher_for(table, place).dispatch([record(0, 0)], is_from_beginning=True)
    recoveries = recoveries_of(table, place)
    recoveries.find("T", 0).rewind(0)
    again = dispatcher_for(table, place, recoveries)
    again.durable_offset = 300
    records = [record(0, 0), record(1, 100), record(2, 200), record(3, 300)]
    with pytest.raises(LostUnit):
        again.dispatch(records, is_from_beginning=True)
    assert (table.find("T", 0).max_offset, again.unit_count) == (1, 0)
    again.durable_offset = 100
    again.dispatch(records[1:], is_from_beginning=True)
    assert (table.find("T", 0).max_offset, again.unit_count) == (4, 3)
