"""What an inspection says of the next start is what the next start does: the same stores, judged by one and opened by
the other, after everything that may have happened to their small files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio.testing

from rocketpy.errors import DamagedStoreError
from rocketpy.store.inspection.verify.inventory import read_inventory
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.small_files_inspection import LastEnd, read_last_end
from rocketpy.store.recovery.checkpoint import DurableEnds, load_checkpoint
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import Reports, send
from tests.store.opened_store import opened as open_store
from tests.store.parts import Place
from tests.store.whole.test_recovery_note import LIES, killed, look


def remove_note(place: Place) -> None:
    place.disk.unlink("/store/orderly-end")


def garbage_note(place: Place) -> None:
    remove_note(place)
    place.write("/store/orderly-end", b"what")


def note_of_other_queues(place: Place) -> None:
    words = place.read("/store/orderly-end").split()
    words[3] = b"00" * 16
    remove_note(place)
    place.write("/store/orderly-end", b" ".join(words))


def note_of_an_earlier_end(place: Place) -> None:
    words = place.read("/store/orderly-end").split()
    words[1] = b"0"
    remove_note(place)
    place.write("/store/orderly-end", b" ".join(words))


def add_abort_file(place: Place) -> None:
    place.write("/store/abort", b"")


def checkpoint_of_java(place: Place) -> None:
    times = place.read("/store/checkpoint")[:24]
    place.write("/store/checkpoint", times.ljust(4096, b"\0"))


def checkpoint_of_java_without_note(place: Place) -> None:
    checkpoint_of_java(place)
    remove_note(place)


def checkpoint_of_java_and_a_kill(place: Place) -> None:
    checkpoint_of_java(place)
    add_abort_file(place)


def no_checkpoint(place: Place) -> None:
    place.disk.unlink("/store/checkpoint")


def no_checkpoint_and_no_note(place: Place) -> None:
    no_checkpoint(place)
    remove_note(place)


def zeros_for_a_checkpoint(place: Place) -> None:
    place.write("/store/checkpoint", bytes(4096))


def no_queue(place: Place) -> None:
    place.remove_tree(f"{place.consume_queue}/T/0")


def no_queue_after_a_kill(place: Place) -> None:
    add_abort_file(place)
    no_queue(place)


def no_queues_at_all(place: Place) -> None:
    place.remove_tree(place.consume_queue)


def no_queues_after_a_kill(place: Place) -> None:
    add_abort_file(place)
    no_queues_at_all(place)


def last_unit_gone(place: Place) -> None:
    place.write(place.queue_file("T", 0), bytes(20), LAST_UNIT)


def last_unit_gone_after_a_kill(place: Place) -> None:
    last_unit_gone(place)
    add_abort_file(place)


def a_unit_in_the_middle_gone(place: Place) -> None:
    place.write(place.queue_file("T", 0), bytes(20), 20)


def a_unit_in_the_middle_gone_after_a_kill(place: Place) -> None:
    a_unit_in_the_middle_gone(place)
    add_abort_file(place)


def queue_that_leads_out_of_the_log(place: Place) -> None:
    place.write(place.queue_file("T", 0), (1 << 40).to_bytes(8, "big"), LAST_UNIT)


def queue_that_leads_out_of_the_log_of_java(place: Place) -> None:
    queue_that_leads_out_of_the_log(place)
    checkpoint_of_java_without_note(place)


def queue_of_java_that_begins_late(place: Place) -> None:
    path = place.queue_file("T", 0)
    place.disk.rename(path, place.queue_file("T", 0, 6000))
    checkpoint_of_java_without_note(place)


def queue_that_begins_late_after_a_kill(place: Place) -> None:
    path = place.queue_file("T", 0)
    place.disk.rename(path, place.queue_file("T", 0, 6000))
    add_abort_file(place)


def checkpoint_within_a_record_after_a_kill(place: Place) -> None:
    """That of another store: no record begins where it leads."""
    checkpoint = load_checkpoint(place.disk, "/store/checkpoint")
    assert checkpoint.ends is not None
    offset = checkpoint.ends.durable_offset - 10
    checkpoint.ends = DurableEnds(offset, offset, 1)
    checkpoint.flush()
    add_abort_file(place)


def nothing(place: Place) -> None:
    pass


COUNT = 12
LAST_UNIT = (COUNT - 1) * 20
ARRANGEMENTS = [
    nothing,
    remove_note,
    garbage_note,
    note_of_other_queues,
    note_of_an_earlier_end,
    add_abort_file,
    checkpoint_of_java,
    checkpoint_of_java_without_note,
    checkpoint_of_java_and_a_kill,
    no_checkpoint,
    no_checkpoint_and_no_note,
    zeros_for_a_checkpoint,
    no_queue,
    no_queue_after_a_kill,
    no_queues_at_all,
    no_queues_after_a_kill,
    last_unit_gone,
    last_unit_gone_after_a_kill,
    a_unit_in_the_middle_gone,
    a_unit_in_the_middle_gone_after_a_kill,
    queue_that_leads_out_of_the_log,
    queue_that_leads_out_of_the_log_of_java,
    queue_of_java_that_begins_late,
    queue_that_begins_late_after_a_kill,
    checkpoint_within_a_record_after_a_kill,
]


def judged(place: Place) -> LastEnd:
    opened = ReadOnlyFiles(place.disk)
    try:
        return read_last_end(place.disk, read_inventory(place.disk, place.root), opened)
    finally:
        opened.close()


@pytest.mark.parametrize("body_size", [10, 8000], ids=["one log file", "several log files"])
@pytest.mark.parametrize("arrange", ARRANGEMENTS, ids=lambda arrange: arrange.__name__)
async def test_what_is_said_of_a_start_is_what_it_does(arrange: Callable[[Place], None], body_size: int) -> None:
    place = Place(SimDisk(), "/store")
    async with open_store(place) as store:
        for number in range(COUNT):
            send(store, b"%d" % number + bytes(body_size))
            store.end_burst()
    arrange(place)
    said = judged(place)
    log_end = read_inventory(place.disk, place.root).log_files[-1].end_offset
    reports: Reports = []
    try:
        async with open_store(place, reports=reports):
            pass
    except* DamagedStoreError:
        assert said.durable_end > log_end, "an inspection says that the start refuses the store"
    for report in reports:
        assert said.walk_begin == report.scanned_from
        assert said.durable_end <= report.end_offset
    assert said.is_clean == (said.orderly_end is not None or arrange in CLEAN_FOR_JAVA)


CLEAN_FOR_JAVA = {
    checkpoint_of_java_without_note,
    queue_that_leads_out_of_the_log_of_java,
    queue_of_java_that_begins_late,
}


@pytest.mark.parametrize("arrange", ARRANGEMENTS, ids=lambda arrange: arrange.__name__)
async def test_what_is_said_to_be_durable_is_what_a_start_insists_on(arrange: Callable[[Place], None]) -> None:
    """Zeros in place of the last record: the start refuses the store exactly if that was said to be durable."""
    place = Place(SimDisk(), "/store")
    async with open_store(place) as store:
        for number in range(COUNT):
            send(store, b"%d" % number)
            begin = store.wrote_offset
            store.end_burst()
    last_begin = begin // COUNT * (COUNT - 1)
    arrange(place)
    place.write(place.log_file(), bytes(1000), last_begin)
    said = judged(place)
    refuses = False
    try:
        async with open_store(place):
            pass
    except* DamagedStoreError:
        refuses = True
    is_seen = said.walk_begin <= last_begin
    assert refuses == (said.durable_end > last_begin and is_seen)


# ---- the recovery note ----------------------------------------------------------------------------------------------

FOUND_IN_THE_INDEX = {
    "of another index",
    "of another index file",
    "more entries than there are",
    "an end that the index has not",
    "a copied index",
    "an older index",
    "entries of another log",
    "no index",
}
"""Notes that only the index shows to be wrong: an inspection says that a start believes them if the index agrees."""


@pytest.mark.parametrize("name", ["true", *LIES])
async def test_what_is_said_of_the_note_is_what_a_start_says(autojump_clock: trio.testing.MockClock, name: str) -> None:
    place = await killed()
    if name in LIES:
        LIES[name][0](place)
    said = judged(place)
    report, _ = await look(place)
    assert said.walk_begin == report.scanned_from
    assert said.note_objection == ("" if name in FOUND_IN_THE_INDEX else report.note_objection)
    assert bool(report.note_objection) == (name != "true")
