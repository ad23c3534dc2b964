"""The recovery of one queue: its end, the units that are kept, and what is cleared."""

from __future__ import annotations

import pytest

from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT, UNIT_SIZE
from rocketpy.store.recovery.queue_recovery import QueueRecoveries, QueueRecovery
from rocketpy.testing.sim.disk import SimDisk
from tests.store.one_queue import FILE_SIZE, append, path, queue_at, recovered, recovery_of
from tests.store.parts import Parts, Place

STORED_MS = 1_700_000_000_000

# ---- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 39, 45])
def test_the_end_is_after_the_last_valid_unit(place: Place, count: int, is_clean: bool) -> None:
    append(queue_at(place), count)
    queue = recovered(place, is_clean=is_clean).queue
    assert (queue.max_offset, queue.next_offset, queue.flushed_offset) == (count, count, count)
    append(queue, 3)
    assert [queue.unit_at(each)[0] for each in range(count, count + 3)] == [
        100 * each for each in range(count, count + 3)
    ]


def test_after_a_crash_the_end_is_before_the_first_hole(place: Place) -> None:
    append(queue_at(place), 35)
    place.write(path(place, 20), bytes(UNIT_SIZE), 4 * UNIT_SIZE)
    assert recovered(place, is_clean=False).queue.max_offset == 24


@pytest.mark.parametrize("is_clean", [True, False])
def test_files_that_were_reserved_and_never_written_are_not_taken_for_full_ones(place: Place, is_clean: bool) -> None:
    queue = queue_at(place)
    append(queue, 12)
    queue.make_room(60)
    again = recovered(place, is_clean=is_clean).queue
    assert len(again.files) == 8
    assert again.max_offset == 12


def test_a_last_file_that_a_killed_recovery_has_cut_gets_its_length_back(place: Place) -> None:
    append(queue_at(place), 15)
    file = place.disk.open(path(place, 10))
    file.truncate(3 * UNIT_SIZE + 7)
    file.close()
    recovery = recovered(place, is_clean=False)
    assert (recovery.queue.max_offset, recovery.queue.files[-1].size) == (13, FILE_SIZE)
    recovery.truncate(13)
    assert place.disk.file_size(path(place, 10)) == FILE_SIZE


def test_a_single_file_that_a_killed_recovery_has_cut_gets_its_length_back_after_a_clean_shutdown(place: Place) -> None:
    append(queue_at(place), 3)
    file = place.disk.open(path(place, 0))
    file.truncate(3 * UNIT_SIZE)
    file.close()
    recovery = recovered(place, is_clean=True)
    assert recovery.queue.files[-1].size == 3 * UNIT_SIZE  # no recovery was killed: it is as its broker has made it
    recovery.recover(is_clean=True, file_size=FILE_SIZE, trusts_clear=False)
    assert (recovery.queue.max_offset, recovery.queue.files[-1].size) == (3, FILE_SIZE)
    recovery.truncate(3, trusts_clear=False)
    assert place.disk.file_size(path(place, 0)) == FILE_SIZE


def test_where_the_record_of_the_last_unit_ends(place: Place) -> None:
    assert recovered(place).physical_end() == 0
    append(queue_at(place), 15)
    recovery = recovered(place)
    assert recovery.physical_end() == 1500
    end = recovery.end()
    assert (end.topic, end.queue_id, end.begin_position, end.max_offset, end.physical_end()) == ("T", 3, 0, 15, 1500)


def test_a_queue_of_blanks_has_no_record(place: Place) -> None:
    place.write(path(place), PRE_BLANK_UNIT * 10)
    assert recovered(place).queue.max_offset == 10
    assert recovered(place).physical_end() == 0


def test_the_last_units_are_read_once() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    append(queue_at(place), 15)
    recovery = recovered(place)
    reads = disk.calls["read"]
    assert recovery.physical_end() == 1500
    assert recovery.first_at_or_after(1250) == 13
    assert recovery.stale_units(12, 9) == b"".join(UNIT.pack(100 * number, 100, 7) for number in range(12, 15))
    assert disk.calls["read"] == reads
    recovery.correct_min_offset(0)
    reads = disk.calls["read"]
    assert recovery.unit_at(14) == (1400, 100, 7)
    assert disk.calls["read"] == reads + 1, "nothing is kept in memory past the end of recovery"


def test_units_are_found_by_their_offset_in_the_log(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 35)
    for recovery in (recovery_of(queue, place), recovered(place)):
        for physical_offset in range(0, 3600, 50):
            assert recovery.first_at_or_after(physical_offset) == min(35, -(-physical_offset // 100))
        recovery.correct_min_offset(1250)
        assert recovery.queue.min_offset == 13


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_a_rewound_queue_has_its_old_units_still(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 15)
    recovery = recovery_of(queue, place)
    recovery.rewind(8)
    assert (queue.max_offset, queue.flushed_offset) == (8, 8)
    stale = recovery.stale_units(8, 64)
    assert UNIT.unpack(stale[:UNIT_SIZE]) == (800, 100, 7)
    assert len(stale) == 2 * UNIT_SIZE, "to the end of the file"
    assert recovery.stale_units(30, 64) == b""


def rewound(place: Place) -> QueueRecovery:
    """A queue of 35 units in four files, found after a crash and gone back to the first."""
    append(queue_at(place), 35)
    recovery = recovered(place, is_clean=False)
    recovery.rewind(0)
    return recovery


def test_units_are_adopted_as_long_as_they_match_their_records(place: Place) -> None:
    recovery = rewound(place)
    offsets, sizes = [100 * number for number in range(40)], [100] * 40
    assert recovery.adopt_units(offsets[:25], sizes[:25]) == 25, "over the ends of files"
    assert (recovery.queue.max_offset, recovery.queue.flushed_offset) == (25, 0), "and not as durable"
    sizes[33] += 1
    assert recovery.adopt_units(offsets[25:30], sizes[25:30]) == 5
    assert recovery.adopt_units(offsets[30:], sizes[30:]) == 0, "units of one file match together or not at all"
    assert recovery.adopt_units(offsets[30:33], sizes[30:33]) == 3
    assert recovery.queue.next_offset == 33


def test_the_tags_code_of_an_earlier_run_is_its_records(place: Place) -> None:
    recovery = rewound(place)
    assert recovery.stale_tags_code(4, 400, 100, STORED_MS) == 7
    assert recovery.stale_tags_code(4, 500, 100, STORED_MS) is None, "of another record"
    assert recovery.stale_tags_code(4, 400, 101, STORED_MS) is None, "of another record"
    assert recovery.stale_tags_code(13, 1300, 100, STORED_MS) == 7, "in another file"
    assert recovery.stale_tags_code(35, 3500, 100, STORED_MS) is None, "there is none"
    assert recovery.stale_tags_code(99, 9900, 100, STORED_MS) is None, "there is not even a file"


def test_a_tags_code_that_a_sector_has_cut_is_not_kept(place: Place) -> None:
    """Physical offset and size of unit 25 end at byte 512: the disk may have written that sector only."""
    queue = queue_at(place, file_size=50 * UNIT_SIZE)
    append(queue, 30)
    place.write(path(place), bytes(8), 25 * UNIT_SIZE + 12)
    recovery = recovery_of(queue, place)
    recovery.rewind(0)
    assert recovery.stale_tags_code(24, 2400, 100, STORED_MS) == 7
    assert recovery.stale_tags_code(25, 2500, 100, STORED_MS) is None
    assert recovery.adopt_units([100 * number for number in range(30)], [100] * 30) == 25


@pytest.mark.parametrize(("count", "kept"), [(30, 30), (26, 25)])
def test_after_a_kill_only_the_last_unit_may_be_cut(place: Place, count: int, kept: int) -> None:
    """Every sector is as it was written; but the kill may have ended the write of the queue within its last unit."""
    queue = queue_at(place, file_size=50 * UNIT_SIZE)
    append(queue, count)
    place.write(path(place), bytes(8), 25 * UNIT_SIZE + 12)
    recovery = recovery_of(queue, place)
    recovery.recover(is_clean=False, file_size=50 * UNIT_SIZE, was_only_killed=True)
    recovery.rewind(3)
    assert recovery.adopt_units([100 * number for number in range(3, count)], [100] * (count - 3)) == kept - 3
    assert recovery.stale_tags_code(25, 2500, 100, STORED_MS) == (0 if kept == count else None)


# ---- what is dropped ------------------------------------------------------------------------------------------------


def test_truncation_clears_what_it_cuts(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 35)
    recovery_of(queue, place).truncate(13)
    assert (queue.max_offset, queue.next_offset) == (13, 13)
    assert len(queue.files) == 2
    assert place.read(path(place, 10))[3 * UNIT_SIZE :] == bytes(7 * UNIT_SIZE)
    append(queue, 1)
    assert queue.unit_at(13)[0] == 1300
    assert recovered(place, is_clean=False).queue.max_offset == 14


def test_what_was_cut_does_not_come_back_with_the_next_loss_of_power() -> None:
    """Another message of the same size may be at its offset by then, and have other tags."""
    disk = SimDisk()
    place = Place(disk, "/store")
    queue = queue_at(place)
    append(queue, 25)
    for mapped_file in queue.files:
        mapped_file.file().sync()
    disk.sync_directory(queue.files.path)
    recovery_of(queue, place).truncate(3)
    disk.lose_power(lambda count: 0)
    assert disk.list_directory(queue.files.path) == ["00000000000000000000"]
    content = place.read(path(place))
    assert len(content) == FILE_SIZE
    assert content[3 * UNIT_SIZE :].count(0) == FILE_SIZE - 3 * UNIT_SIZE


def test_what_reads_as_zeros_is_cleared_again_only_if_it_may_be_so_in_memory_only() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    append(queue_at(place), 15)
    marks: list[str] = []
    queue = queue_at(place)
    queue.files.load(drop_after_gap=True)
    recovery = QueueRecovery(queue, disk=disk, before_clearing=lambda: marks.append("mark"))
    recovery.recover(is_clean=False, file_size=FILE_SIZE)
    syncs = disk.calls["sync"]
    recovery.truncate(15)
    assert (disk.calls["sync"], marks) == (syncs, [])
    recovery.truncate(15, trusts_clear=False)
    assert (disk.calls["sync"], marks) == (syncs + 1, ["mark"])


def test_the_mark_is_there_before_anything_is_cleared() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    append(queue_at(place), 15)
    contents: list[bytes] = []
    queue = queue_at(place)
    queue.files.load(drop_after_gap=True)
    recovery = QueueRecovery(queue, disk=disk, before_clearing=lambda: contents.append(place.read(path(place))))
    recovery.truncate(3)
    recovery.remove_files()
    assert [content.count(0) == FILE_SIZE for content in contents] == [False, False]
    assert UNIT.unpack(contents[0][-UNIT_SIZE:]) == (900, 100, 7)
    assert UNIT.unpack(contents[1][2 * UNIT_SIZE : 3 * UNIT_SIZE]) == (200, 100, 7)


def test_units_that_recovery_has_removed_do_not_come_back_with_the_power() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    parts.put_all([b"body"] * 50)
    parts.close()
    disk.sync_directory("/store/consumequeue/TopicTest/0")
    queue = parts.queues.find("TopicTest", 0)
    assert queue.files
    recovery_of(queue, place).remove_files()
    disk.lose_power(lambda count: 0)
    assert not disk.exists(place.queue_file("TopicTest", 0))
    assert place.files(place.consume_queue) == {}


# ---- of all queues --------------------------------------------------------------------------------------------------


def test_each_queue_has_one_recovery(place: Place) -> None:
    table = Parts(place).queues
    table.find("T", 0)
    recoveries = QueueRecoveries(table, disk=place.disk, before_clearing=lambda: None)
    first = recoveries.find("T", 0)
    assert first.queue is table.find("T", 0)
    assert recoveries.find("T", 0) is first
    assert recoveries.find("T", 1).queue is table.find("T", 1), "a queue that is new has one too"
    assert [each.queue for each in recoveries] == list(table)
    table.remove_topic("T", 0)
    assert recoveries.find("T", 0) is not first, "that queue is another one"
