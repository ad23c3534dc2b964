"""The note of a clean shutdown: trusted when it is true, harmless in every other case."""

from __future__ import annotations

import pytest
import trio

from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import FlushDiskType
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.marker_files import load_orderly_end, persist_orderly_end
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import bodies, opened, send
from tests.store.parts import Place


async def fill(place: Place, count: int, first: int = 0) -> None:
    async with opened(place) as store:
        for number in range(first, first + count):
            send(store, b"%d" % number, queue_id=number % 2)
        store.end_burst()


async def look(place: Place) -> tuple[RecoveryReport, list[int]]:
    """Open, and return what recovery did and how many messages there are in each queue."""
    reports: list[RecoveryReport] = []
    async with opened(place, reports=reports) as store:
        counts = [len(bodies(store, queue_id=queue_id)) for queue_id in range(2)]
    return reports[0], counts


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


def note(place: Place) -> str:
    return f"{place.root}/orderly-end"


async def test_a_start_after_a_clean_shutdown_reads_no_record(place: Place) -> None:
    await fill(place, 200)
    report, counts = await look(place)
    assert (report.record_count, report.unit_count, counts) == (0, 0, [100, 100])
    assert report.scanned_from == report.end_offset
    await fill(place, 10, first=200)  # what is appended then goes on where the log ended
    assert (await look(place))[1] == [105, 105]


async def test_without_the_note_the_walk_begins_at_the_checkpoint(place: Place) -> None:
    await fill(place, 200)
    place.disk.unlink(note(place))
    report, counts = await look(place)
    assert (report.record_count, counts) == (0, [100, 100])
    assert report.scanned_from == report.end_offset


async def test_after_a_java_broker_the_log_is_walked_as_ever(place: Place) -> None:
    """It writes its own times into the checkpoint, and only the abort file shows how it stopped."""
    await fill(place, 200)
    as_java_writes_it(place)
    place.disk.unlink(note(place))
    report, counts = await look(place)
    assert (report.record_count, counts) == (200, [100, 100])


def as_java_writes_it(place: Place) -> None:
    file = place.disk.open(f"{place.root}/checkpoint")
    file.write(8, (int.from_bytes(file.read(8, 8), "big") + 1).to_bytes(8, "big"))
    file.close()


async def test_an_abort_file_removed_by_hand_does_not_make_a_kill_a_clean_shutdown(place: Place) -> None:
    """Then queues would be trusted that were never synced, and the next power loss would take them."""
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True, allow_unwrapped=True):
        async with opened(place, flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
            append_and_die(store)
    assert isinstance(place.disk, SimDisk)
    for _ in range(2):
        place.disk.kill_process()
        place.disk.unlink(f"{place.root}/abort")
        place.disk.sync_directory(place.root)
        with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True, allow_unwrapped=True):
            async with opened(place, flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
                assert [len(bodies(store, queue_id=queue_id)) for queue_id in range(2)] == [1, 1]
                raise RuntimeError("killed")
        place.disk.lose_power(lambda count: 0)
    assert (await look(place))[1] == [1, 1]


async def test_an_index_that_was_deleted_after_a_clean_shutdown_is_built_again(place: Place) -> None:
    async with opened(place) as store:
        send(store, b"found by its key", key=b"needle")
        store.end_burst()
    place.remove_tree(f"{place.root}/index")
    async with opened(place) as store:
        while store.index_behind:
            await trio.sleep(0.01)
        result = await store.query_message("T", "needle", 10, 0, 1 << 62)
        assert [message.body for message in decode_messages(result.body)] == [b"found by its key"]


@pytest.mark.parametrize(
    "text", ["", "2", "2 2 3", "1 10 10 digest 0", "2 ten 10 d 0", f"2 {'9' * 40} 1 d 0", "2 10 10 d", "\0\xff"]
)
async def test_a_note_that_makes_no_sense_is_no_note(place: Place, text: str) -> None:
    await fill(place, 20)
    for path in (note(place), note(place) + ".bak"):
        file = place.disk.open(path, create=True)
        file.truncate(0)
        file.write(0, text.encode("latin-1"))
        file.close()
    assert load_orderly_end(place.disk, note(place)) is None
    assert (await look(place))[1] == [10, 10]


async def test_an_outdated_note_is_not_trusted(place: Place) -> None:
    """As when a Java broker appended and stopped in order meanwhile: the note stays, the queues have moved on."""
    await fill(place, 20)
    old = load_orderly_end(place.disk, note(place))
    assert old is not None
    await fill(place, 20, first=20)
    persist_orderly_end(place.disk, note(place), old)
    as_java_writes_it(place)
    report, counts = await look(place)
    assert (report.record_count, counts) == (40, [20, 20])


async def test_a_queue_that_was_deleted_is_noticed_and_made_again(place: Place) -> None:
    await fill(place, 20)
    queue = f"{place.root}/consumequeue/T/1"
    for name in place.disk.list_directory(queue):
        place.disk.unlink(f"{queue}/{name}")
    report, counts = await look(place)
    assert (report.unit_count, counts) == (10, [10, 10])


async def test_after_a_crash_it_is_not_looked_at(place: Place) -> None:
    await fill(place, 20)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True, allow_unwrapped=True):
        async with opened(place) as store:
            append_and_die(store)
    report, counts = await look(place)
    assert report.record_count == 2  # what was after the checkpoint of the stop
    assert counts == [11, 11]


def append_and_die(store: MessageStore) -> None:
    for queue_id in range(2):
        send(store, b"last words", queue_id=queue_id)
    store.end_burst()
    raise RuntimeError("killed")
