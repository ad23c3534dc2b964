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
from tests.store.whole.test_recovery_note import LIES, killed_store, look


def remove_note(place: Place) -> None:
    place.disk.unlink("/store/orderly-end")


def replace_note(place: Place, content: bytes) -> None:
    remove_note(place)
    place.write("/store/orderly-end", content)


def change_note(place: Place, word: int, value: bytes) -> None:
    words = place.read("/store/orderly-end").split()
    words[word] = value
    replace_note(place, b" ".join(words))


def add_abort_file(place: Place) -> None:
    place.write("/store/abort", b"")


def checkpoint_of_java(place: Place) -> None:
    times = place.read("/store/checkpoint")[:24]
    place.write("/store/checkpoint", times.ljust(4096, b"\0"))


def checkpoint_of_java_without_note(place: Place) -> None:
    checkpoint_of_java(place)
    remove_note(place)


def remove_checkpoint(place: Place) -> None:
    place.disk.unlink("/store/checkpoint")


def checkpoint_within_a_record(place: Place) -> None:
    """That of another store: no record begins where it leads."""
    checkpoint = load_checkpoint(place.disk, "/store/checkpoint")
    assert checkpoint.ends is not None
    offset = checkpoint.ends.durable_offset - 10
    checkpoint.ends = DurableEnds(offset, offset, 1)
    checkpoint.flush()


def remove_queue(place: Place) -> None:
    place.remove_tree(f"{place.consume_queue}/T/0")


def remove_all_queues(place: Place) -> None:
    place.remove_tree(place.consume_queue)


def remove_last_unit(place: Place) -> None:
    place.write(place.queue_file("T", 0), bytes(20), LAST_UNIT)


def remove_second_unit(place: Place) -> None:
    place.write(place.queue_file("T", 0), bytes(20), 20)


def queue_leads_out_of_the_log(place: Place) -> None:
    place.write(place.queue_file("T", 0), (1 << 40).to_bytes(8, "big"), LAST_UNIT)


def queue_begins_late(place: Place) -> None:
    place.disk.rename(place.queue_file("T", 0), place.queue_file("T", 0, 6000))


Change = Callable[[Place], None]
COUNT = 12
LAST_UNIT = (COUNT - 1) * 20
ARRANGEMENTS: dict[str, tuple[Change, ...]] = {
    "nothing": (),
    "no note": (remove_note,),
    "garbage for a note": (lambda place: replace_note(place, b"what"),),
    "note of other queues": (lambda place: change_note(place, 3, b"00" * 16),),
    "note of an earlier end": (lambda place: change_note(place, 1, b"0"),),
    "abort file": (add_abort_file,),
    "Java's checkpoint": (checkpoint_of_java,),
    "Java's checkpoint, no note": (checkpoint_of_java_without_note,),
    "Java's checkpoint, killed": (checkpoint_of_java, add_abort_file),
    "no checkpoint": (remove_checkpoint,),
    "no checkpoint, no note": (remove_checkpoint, remove_note),
    "zeros for a checkpoint": (lambda place: place.write("/store/checkpoint", bytes(4096)),),
    "no queue": (remove_queue,),
    "no queue, killed": (remove_queue, add_abort_file),
    "no queues": (remove_all_queues,),
    "no queues, killed": (remove_all_queues, add_abort_file),
    "no last unit": (remove_last_unit,),
    "no last unit, killed": (remove_last_unit, add_abort_file),
    "no second unit": (remove_second_unit,),
    "no second unit, killed": (remove_second_unit, add_abort_file),
    "a queue leads out of the log": (queue_leads_out_of_the_log,),
    "a queue leads out of the log, Java's": (queue_leads_out_of_the_log, checkpoint_of_java_without_note),
    "a queue begins late, Java's": (queue_begins_late, checkpoint_of_java_without_note),
    "a queue begins late, killed": (queue_begins_late, add_abort_file),
    "a checkpoint within a record, killed": (checkpoint_within_a_record, add_abort_file),
}
"""What has happened to a store after a clean shutdown."""


@pytest.fixture(params=ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def changes(request: pytest.FixtureRequest) -> tuple[Change, ...]:
    return request.param


def judged(place: Place) -> LastEnd:
    opened = ReadOnlyFiles(place.disk)
    try:
        return read_last_end(place.disk, read_inventory(place.disk, place.root), opened)
    finally:
        opened.close()


@pytest.mark.parametrize("body_size", [10, 8000], ids=["one log file", "several log files"])
async def test_what_is_said_of_a_start_is_what_it_does(changes: tuple[Change, ...], body_size: int) -> None:
    place = Place(SimDisk(), "/store")
    async with open_store(place) as store:
        for number in range(COUNT):
            send(store, b"%d" % number + bytes(body_size))
            store.end_burst()
    for change in changes:
        change(place)
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
    assert said.is_clean == (said.orderly_end is not None or checkpoint_of_java_without_note in changes)


async def test_what_is_said_to_be_durable_is_what_a_start_insists_on(changes: tuple[Change, ...]) -> None:
    """Zeros in place of the last record: the start refuses the store exactly if that was said to be durable."""
    place = Place(SimDisk(), "/store")
    async with open_store(place) as store:
        for number in range(COUNT):
            send(store, b"%d" % number)
            begin = store.wrote_offset
            store.end_burst()
    last_begin = begin // COUNT * (COUNT - 1)
    for change in changes:
        change(place)
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
    place = await killed_store()
    if name in LIES:
        LIES[name][0](place)
    said = judged(place)
    report, _ = await look(place)
    assert said.walk_begin == report.scanned_from
    assert said.note_objection == ("" if name in FOUND_IN_THE_INDEX else report.note_objection)
    assert bool(report.note_objection) == (name != "true")
