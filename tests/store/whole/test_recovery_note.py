"""A killed store with its recovery note, and with every kind of note that lies: that costs time, never a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

import pytest
import trio
import trio.testing

from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.checkpoint import DurableEnds, load_checkpoint
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import bodies, killed, opened, send
from tests.store.parts import Place

COUNT = 100  # so many messages before the checkpoint, and half as many after it
LONG_COUNT, LONG_SIZE = 170, 8000  # messages, and bytes of each: more than is worth a checkpoint of its own
NOTE = "recovery-note"
SETTINGS = {"max_hash_slot_num": 20, "max_index_num": 70}


async def live(place: Place, first: int, count: int, *, seconds: float, **changes: object) -> None:
    """One life, ended by a kill."""
    async with killed(place, **{**SETTINGS, **changes}) as store:
        for number in range(first, first + count):
            send(store, b"%d" % number, queue_id=number % 2, key=b"key%d" % number)
        store.end_burst()
        await trio.sleep(seconds)
        assert not store.index_behind


async def killed_store() -> Place:
    """Return a store that was killed some time after a checkpoint."""
    place = Place(SimDisk(), "/store")
    await live(place, 0, COUNT, seconds=61)
    await live(place, COUNT, COUNT // 2, seconds=0.2)
    return place


async def look(place: Place, count: int = COUNT * 3 // 2, **changes: object) -> tuple[RecoveryReport, int]:
    """Open, and return what recovery did and how much of the log it had read for the index; all must be there."""
    reports: list[RecoveryReport] = []
    async with opened(place, reports=reports, **{**SETTINGS, **changes}) as store:
        found = [body for queue_id in range(2) for body in bodies(store, queue_id=queue_id)]
        assert sorted(map(int, found)) == list(range(count))
        await check_keys(store, count)
    return reports[0], reports[0].end_offset - reports[0].index_begin_offset


async def check_keys(store: MessageStore, count: int) -> None:
    while store.index_behind:
        await trio.sleep(0.01)
    for number in range(count):
        result = await store.query_message("T", f"key{number}", 10, 0, 1 << 62)
        assert [message.body for message in decode_messages(result.body)] == [b"%d" % number]


async def test_after_a_kill_nothing_is_read_again_for_the_index(autojump_clock: trio.testing.MockClock) -> None:
    place = await killed_store()
    report, behind = await look(place)
    assert (report.is_crash, report.note_objection) == (True, "")
    assert behind < 300, "the last message is indexed once more, because some of its keys may be missing"


async def test_kill_after_kill_the_note_stays_true(autojump_clock: trio.testing.MockClock) -> None:
    """Also if the next kill comes before the first checkpoint of a run."""
    place = await killed_store()
    for number in range(3):
        await live(place, COUNT * 3 // 2 + number, 1, seconds=0.2)
    report, behind = await look(place, COUNT * 3 // 2 + 3)
    assert report.note_objection == ""
    assert behind < 300


async def test_files_that_were_kept_are_durable_after_a_clean_shutdown(autojump_clock: trio.testing.MockClock) -> None:
    place = await killed_store()
    await look(place)
    assert isinstance(place.disk, SimDisk)
    place.disk.lose_power(lambda count: 0)
    report, behind = await look(place)
    assert (report.is_crash, behind) == (False, 0)


async def test_a_clean_shutdown_leaves_no_note(autojump_clock: trio.testing.MockClock) -> None:
    """Another broker may have the store next, which does not know it."""
    place = await killed_store()
    assert place.disk.exists(f"{place.root}/{NOTE}")
    await look(place)
    assert not place.disk.exists(f"{place.root}/{NOTE}")


async def killed_java_store() -> Place:
    """Return a store as a killed Java broker leaves it: times in the checkpoint, no offsets of ours, no note."""
    place = Place(SimDisk(), "/store")
    async with killed(place) as store:
        for number in range(LONG_COUNT):
            send(store, b"%d" % number + bytes(LONG_SIZE), queue_id=number % 2)
        store.end_burst()
    place.disk.unlink(f"{place.root}/{NOTE}")
    place.write(f"{place.root}/checkpoint", b"".join(each.to_bytes(8, "big") for each in (1, 1, 0)).ljust(4096, b"\0"))
    return place


async def test_the_walk_of_a_java_store_is_not_repeated_after_a_kill_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The checkpoint that covers it follows the start at once, and the first sends do not wait for it."""
    place = await killed_java_store()
    reports: list[RecoveryReport] = []
    async with killed(place, reports=reports) as store:
        began = trio.current_time()
        for number in range(3):
            send(store, b"%d" % (LONG_COUNT + number))
        store.end_burst()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == began
    async with opened(place, reports=reports) as store:
        assert sum(len(bodies(store, queue_id=queue_id)) for queue_id in range(2)) == LONG_COUNT + 3
    first, second = reports
    assert (first.scanned_from, first.record_count) == (0, LONG_COUNT)
    assert second.scanned_from >= first.end_offset
    assert second.record_count <= 3
    assert second.is_crash


async def test_a_store_without_a_message_has_nothing_to_tell_of_a_crash(
    autojump_clock: trio.testing.MockClock,
) -> None:
    place = Place(SimDisk(), "/store")
    for _ in range(2):  # new, and after a clean shutdown
        report, _ = await look(place, 0)
        assert report.after_a_crash == ""


# ---- notes that lie -------------------------------------------------------------------------------------------------


def lies(place: Place, content: bytes) -> None:
    """Overwrite the note in place, so that it is the same file."""
    place.write(f"{place.root}/{NOTE}", content.ljust(512))


def changed(place: Place, word: int, value: str) -> None:
    """Change a word of the note, with a checksum that is right."""
    words = place.read(f"{place.root}/{NOTE}").decode().split()[:-1]
    words[word] = value
    text = " ".join(words)
    lies(place, f"{text} {crc32(text.encode()):08x}".encode())


def copied_index(place: Place) -> None:
    """A copy of the last index file that a tool made while it was written to: with its header, and with no slot."""
    path = f"{place.root}/index/{place.disk.list_directory(f'{place.root}/index')[-1]}"
    content = place.read(path)
    place.disk.unlink(path)
    place.write(path, content[:40] + bytes(80) + content[120:])


def older_index(place: Place) -> None:
    """The header of the last index file says less than the note."""
    name = place.disk.list_directory(f"{place.root}/index")[-1]
    place.write(f"{place.root}/index/{name}", (2).to_bytes(4, "big"), 36)


def foreign_index(place: Place) -> None:
    """The last index file, the same file by its name and number, has entries of another log."""
    path = f"{place.root}/index/{place.disk.list_directory(f'{place.root}/index')[-1]}"
    header = place.read(path)[:40]
    count = int.from_bytes(header[36:40], "big")
    for number in range(1, count):
        place.write(path, b"\0\0\0\1", 40 + 20 * 4 + number * 20)


def java_checkpoint(place: Place) -> None:
    """A Java broker has written its times."""
    path = f"{place.root}/checkpoint"
    place.write(path, (int.from_bytes(place.read(path)[8:16], "big") + 1).to_bytes(8, "big"), 8)


def empty(place: Place, name: str) -> None:
    place.disk.open(f"{place.root}/{name}", create=True).close()


LIES: Mapping[str, tuple[Callable[[Place], object], str]] = {
    "missing": (lambda place: place.disk.unlink(f"{place.root}/{NOTE}"), "there is none"),
    "random bytes": (lambda place: lies(place, bytes(range(128, 255))), "it is not text"),
    "torn": (lambda place: place.write(f"{place.root}/{NOTE}", b"#", 20), "its checksum is wrong"),
    "of a newer version": (lambda place: changed(place, 0, "2"), "expected version 1, found '2'"),
    "of another store": (lambda place: changed(place, 1, "1/4711"), "the machine was restarted since"),
    "of another boot": (lambda place: changed(place, 1, "7/1"), "the machine was restarted since"),
    "past the end of the log": (lambda place: changed(place, 2, str(1 << 40)), "it is newer than the checkpoint"),
    "of another index": (lambda place: changed(place, 4, "20991231235959999"), "expected the index file 2099"),
    "of another index file": (lambda place: changed(place, 5, "1/4711"), "is another one now"),
    "more entries than there are": (lambda place: changed(place, 6, "199"), "expected 199 entries"),
    "an end that the index has not": (lambda place: changed(place, 7, str(1 << 40)), "found"),
    "a copied index": (copied_index, "is another one now"),
    "an older index": (older_index, "entries in the index file"),
    "entries of another log": (foreign_index, "does not lead to a message with its key"),
    "no index": (lambda place: place.remove_tree(f"{place.root}/index"), "expected the index file"),
    "a Java broker's checkpoint": (java_checkpoint, "the checkpoint was written by another program"),
    "a failed sync": (lambda place: empty(place, "failed-sync"), "a sync failed in the last run"),
    "a recovery that was killed": (lambda place: empty(place, "recovering"), "a recovery was killed since"),
}


@pytest.mark.parametrize("name", LIES)
async def test_a_note_that_lies_costs_time_and_no_message(autojump_clock: trio.testing.MockClock, name: str) -> None:
    place = await killed_store()
    lie, why = LIES[name]
    lie(place)
    report, behind = await look(place)
    assert report.is_crash
    assert why in report.note_objection
    assert behind > 300, "the index is built again from the log"


async def test_a_run_without_an_index_leaves_a_note_without_one(autojump_clock: trio.testing.MockClock) -> None:
    place = await killed_store()
    await live(place, COUNT * 3 // 2, 10, seconds=0.2, message_index_enable=False)
    report, behind = await look(place, COUNT * 3 // 2 + 10)
    assert report.note_objection == "it was written before there was an index"
    assert behind > 300


@pytest.mark.parametrize("position", [1, 40, 100])
async def test_a_checkpoint_that_leads_into_a_record_costs_time_and_no_message(
    autojump_clock: trio.testing.MockClock, position: int
) -> None:
    """That of another store: a walk that began there would find no record, and cut the log."""
    place = await killed_store()
    path = f"{place.root}/checkpoint"
    checkpoint = load_checkpoint(place.disk, path)
    assert checkpoint.ends is not None
    offset = checkpoint.ends.durable_offset - position  # the walk of the whole log passes it
    checkpoint.ends = DurableEnds(offset, offset, 1)
    checkpoint.flush()
    report, _ = await look(place)
    assert report.scanned_from == 0
