"""All queues: found on disk, made at first use, flushed in bounded ranges, deleted for good."""

from __future__ import annotations

import pytest

from rocketpy.store.layout import UNIT
from rocketpy.store.queue import table as consume_queue_table
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.testing.sim.disk import SimDisk
from tests.store.one_queue import recoveries_of, table_at
from tests.store.parts import Place, flush_queues


def loaded(place: Place, *, files_per_flush_max: int = 256) -> ConsumeQueueTable:
    """The queues that are on the disk, recovered."""
    table = table_at(place, file_size=4000, files_per_flush_max=files_per_flush_max)
    assert sum(1 for _ in table.load()) == len(place.disk.list_directory(place.consume_queue))
    for recovery in recoveries_of(table, place):
        recovery.recover(is_clean=True, file_size=table.usual_file_size)
    return table


def append(table: ConsumeQueueTable, topic: str, queue_id: int, count: int = 1) -> None:
    queue = table.find(topic, queue_id)
    queue.make_room(count)
    queue.units += [UNIT.pack(number * 100, 100, 0) for number in range(queue.next_offset, queue.next_offset + count)]
    queue.next_offset += count
    queue.write_units()
    table.unflushed[queue] = None


def test_queues_are_found_on_disk(place: Place) -> None:
    table = loaded(place)
    append(table, "T", 0, 3)
    append(table, "T", 11)
    append(table, "%RETRY%g", 0)
    place.write(f"{place.consume_queue}/T/not a number/x", b"")
    place.write(f"{place.consume_queue}/T/5.staged", b"")
    again = loaded(place)
    assert {(queue.topic, queue.queue_id, queue.max_offset) for queue in again} == {
        ("T", 0, 3), ("T", 11, 1), ("%RETRY%g", 0, 1),
    }  # fmt: skip
    assert len(again) == 3


@pytest.mark.parametrize("name", ["00", "01", "2147483648", "9" * 30, "-1", "+1", "\u0661"])
def test_a_directory_with_another_spelling_of_a_queue_id_is_left_alone(place: Place, name: str) -> None:
    """Two names for one queue: the second replaced the first, whose files were deleted as it was found."""
    table = loaded(place)
    append(table, "T", 0, 3)
    append(table, "T", 1, 2)
    foreign = f"{place.consume_queue}/T/{name}/{0:020d}"
    place.write(foreign, b"foreign")
    again = loaded(place)
    assert {(queue.queue_id, queue.max_offset) for queue in again} == {(0, 3), (1, 2)}
    assert place.read(foreign) == b"foreign"


def test_a_file_with_a_queue_id_for_a_name_does_not_end_the_start(place: Place) -> None:
    table = loaded(place)
    append(table, "T", 0, 3)
    place.write(f"{place.consume_queue}/T/7", b"foreign")
    again = loaded(place)
    assert [(queue.queue_id, queue.max_offset) for queue in again] == [(0, 3)]
    assert place.read(f"{place.consume_queue}/T/7") == b"foreign"


def test_a_queue_is_made_at_first_use_and_only_looked_for_by_get(place: Place) -> None:
    table = loaded(place)
    assert table.get("T", 0) is None
    queue = table.find("T", 0)
    assert table.find("T", 0) is queue is table.get("T", 0)
    assert table.get("T", 1) is None
    assert place.disk.list_directory(place.consume_queue) == []


def test_a_flush_makes_units_and_their_files_durable() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    table = loaded(place)
    append(table, "T", 0, 3)
    append(table, "Other", 7)
    assert flush_queues(table) == [2]
    assert [queue.flushed_offset for queue in table] == [3, 1]
    append(table, "T", 0)
    disk.lose_power(lambda count: 0)
    again = loaded(place)
    assert [(queue.topic, queue.max_offset) for queue in again] == [("Other", 1), ("T", 3)]


def test_a_flush_holds_a_bounded_number_of_files(place: Place) -> None:
    table = loaded(place, files_per_flush_max=4)
    for queue_id in range(10):
        append(table, "T", queue_id)
    first = table.begin_flush()
    assert first is not None
    assert not first.is_last
    append(table, "T", 0)  # while the disk works
    first.sync()
    table.end_flush(first, is_synced=True)
    assert flush_queues(table) == [4, 3]
    assert table.find("T", 0).flushed_offset == 2
    assert table.begin_flush() is None


def test_a_flush_looks_at_a_bounded_number_of_queues(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queue_table, "QUEUES_PER_FLUSH_MAX", 4)
    table = table_at(place, file_size=60_000)
    for queue_id in range(6):
        append(table, "T", queue_id, 1000 if queue_id == 5 else 1)
    assert table.begin_flush(least_pages=2) is None, "none of the first four has two pages"
    flush_range = table.begin_flush(least_pages=2)
    assert flush_range is not None
    assert [queue.queue_id for queue, _ in flush_range.queues] == [5]
    assert not flush_range.is_last
    flush_range.sync()
    table.end_flush(flush_range, is_synced=True)
    assert flush_queues(table) == [4, 1]


def test_queues_with_few_pages_wait_for_a_thorough_flush(place: Place) -> None:
    table = table_at(place, file_size=60_000)
    append(table, "T", 0, 1000)
    append(table, "T", 1, 10)
    flush_range = table.begin_flush(least_pages=2)
    assert flush_range is not None
    assert [(queue.queue_id, end) for queue, end in flush_range.queues] == [(0, 1000)]
    assert not flush_range.is_last
    table.end_flush(flush_range, is_synced=True)
    assert table.begin_flush(least_pages=2) is None
    assert flush_queues(table) == [1]


def test_the_usual_file_size_is_ours_unless_the_store_has_none_such(place: Place) -> None:
    assert loaded(place).usual_file_size == 4000
    place.write(place.queue_file("T", 0), bytes(600))
    assert loaded(place).usual_file_size == 4000, "it may have been cut short"
    place.write(place.queue_file("T", 0, 600), bytes(400))
    assert loaded(place).usual_file_size == 600
    place.write(place.queue_file("T", 1), bytes(8000))
    assert loaded(place).usual_file_size == 8000
    append(loaded(place), "T", 2)
    assert loaded(place).usual_file_size == 4000


def test_a_deletion_is_kept_as_long_as_the_log_has_such_records(place: Place) -> None:
    table = loaded(place)
    append(table, "T", 0, 3)
    append(table, "Other", 0)
    table.remove_topic("T", 300)
    table.remove_topic("T", 300)
    assert table.get("T", 0) is None
    assert table.deleted_before == {"T": 300}
    append(table, "T", 1)
    table.remove_topic("T", 500)
    table.remove_topic("Never", 500)
    again = loaded(place)
    assert again.deleted_before == {"T": 500}
    assert [queue.topic for queue in again] == ["Other"]
    again.forget_deletions(499)
    assert again.deleted_before == {"T": 500}
    again.forget_deletions(500)
    assert again.deleted_before == {}
    assert place.disk.list_directory(place.consume_queue) == ["Other"]


def test_an_interrupted_deletion_keeps_the_later_place(place: Place) -> None:
    for physical_offset in (300, 500):
        place.write(f"{place.consume_queue}/T/deleted-before-{physical_offset:020d}", b"")
    assert loaded(place).deleted_before == {"T": 500}
    assert len(place.disk.list_directory(f"{place.consume_queue}/T")) == 1
