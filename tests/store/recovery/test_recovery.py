"""Recovery: what was acknowledged is there, once and in order; what was cut never comes back."""

from __future__ import annotations

import pytest

from rocketpy.errors import DamagedStoreError
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.recovery.checkpoint import DurableEnds
from rocketpy.store.recovery.marker_files import RecoveryMark
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import LOG_FILE_SIZE, Parts, Place

HEAD = 88
LARGE = 1 << 16


def bodies_of(count: int, size: int = 40, first: int = 0) -> list[bytes]:
    return [f"{number:06d}".encode().ljust(size, b".") for number in range(first, first + count)]


def killed_with(place: Place, count: int) -> list[int]:
    """Leave a store of so many messages, in one file of the log, as a kill does; return their offsets."""
    parts = Parts(place, log_file_size=LARGE)
    physical_offsets = parts.put_all(bodies_of(count))
    parts.kill()
    return physical_offsets


def recovered(place: Place, ends: DurableEnds | None = None, *, is_clean: bool = False) -> Parts:
    """Recover such a store, whose checkpoint says what was durable."""
    return Parts(place, is_clean=is_clean, log_file_size=LARGE, durable_ends=ends)


def test_cut_at_every_byte_leaves_the_messages_before(place: Place) -> None:
    """A kill in the middle of a write, or a lost page, leaves any prefix of the last burst."""
    parts = Parts(place, log_file_size=2048)
    offsets = [*parts.put_all(bodies_of(2, size=6)), parts.commit_log.wrote_offset]
    parts.kill()
    log = place.read(place.log_file())
    units = place.read(place.queue_file("TopicTest", 0))
    for cut in range(offsets[-1] + 1):
        place.write(place.log_file(), log[:cut] + bytes(2048 - cut))
        place.write(place.queue_file("TopicTest", 0), units)
        whole = sum(1 for end in offsets[1:] if end <= cut)
        for is_clean in (False, True):
            again = Parts(place, is_clean=is_clean, log_file_size=2048)
            assert again.bodies() == bodies_of(whole, size=6), cut
            assert again.report.end_offset == offsets[whole]
            assert again.queues.find("TopicTest", 0).next_offset == whole
            again.kill()
        assert place.read(place.log_file())[offsets[whole] :].strip(b"\0") == b""
        assert place.read(place.queue_file("TopicTest", 0))[whole * UNIT_SIZE :].strip(b"\0") == b""


def test_what_recovery_cut_never_comes_back(place: Place) -> None:
    """RocketMQ: 100 equal records, number 50 damaged, restart, one send, kill, restart: all 100 are there again."""
    offsets = killed_with(place, 100)
    place.write(place.log_file(), b"\xff", offsets[50] + HEAD + 3)

    again = recovered(place)
    assert again.bodies() == bodies_of(50)
    assert "CRC" in again.report.why
    again.put_all([b"new".ljust(40, b".")])
    again.kill()
    last = recovered(place)
    assert last.bodies() == [*bodies_of(50), b"new".ljust(40, b".")]


def test_what_was_durable_is_not_cut_but_reported_as_damaged(place: Place) -> None:
    """After a clean shutdown of RocketMQ's, which leaves no note, everything that the queues name was durable."""
    parts = Parts(place, log_file_size=LARGE)
    offsets = parts.put_all(bodies_of(100))
    parts.close()
    place.write(place.log_file(), b"\xff", offsets[50] + HEAD + 3)
    before = place.files(place.root)
    with pytest.raises(DamagedStoreError, match=f"expected a record at offset {offsets[50]} .*CRC") as raised:
        recovered(place, is_clean=True)
    assert (raised.value.path, raised.value.position) == (place.log_file(), offsets[50])
    assert place.files(place.root) == before


@pytest.mark.parametrize("lost", ["a queue", "units"])
@pytest.mark.parametrize("counted", [98, 101], ids=["a gap shows it", "the count shows it"])
def test_a_start_that_is_refused_removes_and_makes_no_file(place: Place, lost: str, counted: int) -> None:
    """Also where queues must be rebuilt: units that are left say which records were in the damaged place."""
    parts = Parts(place, log_file_size=LARGE)
    parts.put_all(bodies_of(3), "Quiet")
    offsets = parts.put_all(bodies_of(100))
    parts.put_all(bodies_of(3), "Quiet")
    parts.kill()
    sound = place.read(place.log_file())
    place.write(place.log_file(), b"\xff", offsets[50] + HEAD + 3)
    if lost == "a queue":
        place.remove_tree(f"{place.consume_queue}/Quiet")
    else:
        place.write(place.queue_file("Quiet", 0), bytes(4 * UNIT_SIZE), 2 * UNIT_SIZE)
    before = place.files(place.root)
    ends = DurableEnds(log_flushed_offset=offsets[99], durable_offset=offsets[98], unit_count=counted)
    with pytest.raises(DamagedStoreError, match=f"expected a record at offset {offsets[50]} .*CRC"):
        recovered(place, ends)
    assert place.files(place.root) == before
    place.write(place.log_file(), sound)
    again = recovered(place, ends)
    assert (again.bodies("Quiet"), again.bodies()) == ([*bodies_of(3), *bodies_of(3)], bodies_of(100))


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_checkpoint_says_what_is_damage_and_what_is_a_torn_end(place: Place, is_clean: bool) -> None:
    offsets = killed_with(place, 100)
    ends = DurableEnds(log_flushed_offset=offsets[60], durable_offset=offsets[40], unit_count=40)
    place.write(place.log_file(), b"\xff", offsets[70] + HEAD + 3)
    again = recovered(place, ends, is_clean=is_clean)
    assert again.bodies() == bodies_of(100)[:70]
    again.kill()
    place.write(place.log_file(), b"\xff", offsets[59] + HEAD + 3)
    with pytest.raises(DamagedStoreError, match=f"durable up to {offsets[60]}"):
        recovered(place, ends, is_clean=is_clean)


def test_a_walk_begins_where_everything_was_durable(place: Place) -> None:
    parts = Parts(place, log_file_size=LARGE)
    offsets = parts.put_all(bodies_of(100))
    parts.put_all(bodies_of(3), "Other")
    parts.kill()
    ends = DurableEnds(log_flushed_offset=offsets[60], durable_offset=offsets[40], unit_count=40)
    again = recovered(place, ends)
    assert (again.report.scanned_from, again.report.record_count) == (offsets[40], 63)
    assert again.bodies() == bodies_of(100)


def test_removed_queues_are_rebuilt_from_the_beginning(place: Place) -> None:
    """Also those without a message after the offset where the scan would begin."""
    parts = Parts(place, log_file_size=LARGE)
    parts.put_all(bodies_of(3), "Quiet")
    offsets = parts.put_all(bodies_of(100))
    parts.kill()
    place.remove_tree(f"{place.consume_queue}/Quiet")
    ends = DurableEnds(log_flushed_offset=offsets[60], durable_offset=offsets[40], unit_count=43)
    again = recovered(place, ends)
    assert again.bodies("Quiet") == bodies_of(3)
    assert again.bodies() == bodies_of(100)
    assert again.report.scanned_from == 0


def test_a_queue_that_lost_durable_units_is_rebuilt_from_the_beginning(place: Place) -> None:
    """Else the next message would get an offset that another one has."""
    parts = Parts(place, log_file_size=LARGE)
    parts.put_all(bodies_of(10), "Quiet")
    offsets = parts.put_all(bodies_of(100))
    parts.kill()
    place.write(place.queue_file("Quiet", 0), bytes(UNIT_SIZE), 9 * UNIT_SIZE)
    ends = DurableEnds(log_flushed_offset=offsets[60], durable_offset=offsets[40], unit_count=50)
    again = recovered(place, ends)
    assert again.bodies("Quiet") == bodies_of(10)
    assert again.bodies() == bodies_of(100)
    assert again.report.scanned_from == 0


@pytest.mark.parametrize("damaged", range(10))
def test_a_damaged_unit_in_the_middle_takes_no_sound_one_with_it(place: Place, damaged: int) -> None:
    """It points far past the end of the log, where a search for that end could rely on it."""
    offsets = killed_with(place, 30)
    place.write(place.queue_file("TopicTest", 0), UNIT.pack(1 << 60, 100, 0), damaged * UNIT_SIZE)
    ends = DurableEnds(log_flushed_offset=offsets[20], durable_offset=offsets[20], unit_count=20)
    again = recovered(place, ends)
    assert again.queues.find("TopicTest", 0).max_offset == 30
    assert again.get(damaged + 1).message_count > 0


def test_after_a_crash_the_walk_begins_at_the_last_durable_file(place: Place) -> None:
    parts = Parts(place)
    for number in range(8):
        parts.clock.advance_ms(1000)
        parts.put_all(bodies_of(30, first=30 * number))
    files = len(parts.commit_log.files)
    assert files >= 4
    durable_ms = parts.clock.timestamp_ms() - 1000
    parts.kill()
    again = Parts(place, is_clean=False, durable_before_ms=durable_ms)
    assert 0 < again.report.scanned_from < again.report.end_offset
    assert again.report.record_count < 240
    assert again.bodies() == bodies_of(240)


def test_units_lost_before_the_durable_file_are_found_out_and_made_from_the_beginning(place: Place) -> None:
    parts = Parts(place, queue_file_size=8000)
    for number in range(8):
        parts.clock.advance_ms(1000)
        parts.put_all(bodies_of(30, first=30 * number))
    parts.kill()
    place.write(place.queue_file("TopicTest", 0), bytes(UNIT_SIZE), 3 * UNIT_SIZE)
    again = Parts(place, is_clean=False, queue_file_size=8000, durable_before_ms=parts.clock.timestamp_ms())
    assert again.report.scanned_from == 0
    assert again.bodies() == bodies_of(240)


@pytest.mark.parametrize("count", [0, 30])
def test_a_queue_whose_first_file_went_with_the_power_begins_at_0_again(place: Place, count: int) -> None:
    parts = Parts(place)
    offsets = parts.put_all(bodies_of(50))
    parts.kill()
    place.write(place.log_file(), bytes(LOG_FILE_SIZE - offsets[count]), offsets[count])
    place.disk.unlink(place.queue_file("TopicTest", 0))

    again = Parts(place, is_clean=False)
    assert again.bodies() == bodies_of(count)
    assert again.put(b"next")[2] == count


def test_preallocated_empty_files_are_no_obstacle(place: Place) -> None:
    """RocketMQ prepares one or two files ahead; a kill leaves them all zero."""
    parts = Parts(place)
    parts.put_all(bodies_of(5))
    end = parts.commit_log.wrote_offset
    parts.kill()
    place.write(place.log_file(LOG_FILE_SIZE), bytes(LOG_FILE_SIZE))
    place.write(place.log_file(2 * LOG_FILE_SIZE), bytes(LOG_FILE_SIZE))
    again = Parts(place, is_clean=False)
    assert again.report.end_offset == end
    assert again.report.removed_files == 2
    assert place.disk.list_directory(place.commit_log) == [f"{0:020d}"]


def test_files_without_any_bytes_are_no_obstacle(place: Place) -> None:
    """What a power loss leaves of a file that was just made."""
    parts = Parts(place)
    parts.put_all(bodies_of(5))
    parts.kill()
    place.write(place.log_file(LOG_FILE_SIZE), b"")
    place.write(place.queue_file("TopicTest", 0, 400), b"")
    place.write(place.queue_file("Other", 3, 0), b"")
    again = Parts(place, is_clean=False)
    assert again.bodies() == bodies_of(5)
    again.put_all(bodies_of(100, first=5))
    assert again.bodies() == bodies_of(105)


def test_a_log_whose_first_file_is_empty_begins_there(place: Place) -> None:
    place.write(place.log_file(LOG_FILE_SIZE), bytes(LOG_FILE_SIZE))
    parts = Parts(place, is_clean=False)
    assert parts.report.end_offset == LOG_FILE_SIZE
    assert parts.put_all([b"body"]) == [LOG_FILE_SIZE]


def test_a_last_file_that_was_cut_short_gets_its_length_back(place: Place) -> None:
    """A kill between cutting the tail and extending it again, during an earlier recovery."""
    parts = Parts(place)
    parts.put_all(bodies_of(5))
    end = parts.commit_log.wrote_offset
    parts.kill()
    file = place.disk.open(place.log_file())
    file.truncate(end)
    file.close()
    again = Parts(place, is_clean=False)
    assert again.bodies() == bodies_of(5)
    assert place.disk.file_size(place.log_file()) == LOG_FILE_SIZE
    again.put_all(bodies_of(200, first=5))
    assert again.bodies() == bodies_of(205)


@pytest.mark.parametrize(
    ("names", "offsets"),
    [
        (b"../../outside", b"0"),
        (b"..", b"0"),
        (b"/outside", b"0"),
        (b"x" * 200, b"0"),
        (b"%LMQ%a", b"9" * 5000),
        (b"%LMQ%a", b"1000000"),
        (b"%LMQ%a", b"-1"),
        (b",,", b"0,0,0"),
    ],
)
def test_extra_queues_lead_nowhere_else_and_begin_at_no_place_that_cannot_be(
    place: Place, names: bytes, offsets: bytes
) -> None:
    """A Java broker lets its clients write these properties; recovery must neither leave the store nor fail."""
    parts = Parts(place)
    properties = b"INNER_MULTI_DISPATCH\x01" + names + b"\x02INNER_MULTI_QUEUE_OFFSET\x01" + offsets
    parts.put(b"one")
    parts.put(b"two", properties=properties)
    parts.appender.end_burst()
    parts.kill()
    again = Parts(place, is_clean=False, has_multi_dispatch=True)
    assert again.bodies() == [b"one", b"two"]
    assert [(queue.topic, queue.queue_id) for queue in again.queues if queue.files] == [("TopicTest", 0)]


def test_rewriting_changes_nothing_but_the_disk_s_mind(place: Place) -> None:
    parts = Parts(place)
    parts.put_all(bodies_of(150))
    parts.kill()
    Parts(place, is_clean=False).kill()
    before = place.files(place.root)
    Parts(place, is_clean=False, rewrite=True).kill()
    assert place.files(place.root) == before


def test_the_work_comes_in_slices(place: Place) -> None:
    parts = Parts(place, log_file_size=1 << 20, queue_file_size=1 << 17)
    parts.put_all(bodies_of(5000))
    parts.close()
    assert Parts(place, is_clean=False).slices >= 4


def test_a_recovery_that_ends_leaves_no_mark_and_the_next_syncs_nothing_that_is_clear() -> None:
    """A store may have tens of thousands of queues, so a start must not sync each of them."""
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    for number in range(50):
        parts.put_all([b"body"], f"Topic{number}")
    parts.kill()
    Parts(place, is_clean=False).kill()
    before = disk.calls["sync"]
    Parts(place, is_clean=False).kill()
    assert disk.calls["sync"] - before == 1, "the log"
    assert "recovering" not in disk.list_directory("/store")


def test_a_store_that_is_refused_has_no_mark(place: Place) -> None:
    parts = Parts(place)
    parts.put_all(bodies_of(3))
    parts.close()
    place.write(place.queue_file("TopicTest", 0), b"\xff" * 20, 60)  # is cleared, durably
    before = place.files(place.commit_log)
    mark = RecoveryMark(place.disk, f"{place.root}/recovering")
    for has_died_before in (False, True):
        if has_died_before:
            mark.create()
        with pytest.raises(DamagedStoreError):
            Parts(place, durable_ends=DurableEnds(1 << 20, 1 << 20, 3))
        assert place.files(place.commit_log) == before
        assert mark.exists() is has_died_before, "a recovery that is refused has not done the work of an earlier one"
