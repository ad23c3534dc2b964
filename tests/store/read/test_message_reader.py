"""Reads: statuses and limits of RocketMQ, spans instead of single reads, cold bytes, searches by time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.read.steps import Steps, read_now
from rocketpy.store.results import GetMessageResult, GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.forged_record import body_posing_as_record
from tests.store.parts import LIMITS, LOG_FILE_SIZE, Parts, Place
from tests.store.queue_deletion import delete_expired_files

T = TypeVar("T")


@attrs.frozen
class Filter:
    """Wants one tags code, and if it says so only bodies that contain a text."""

    tags_code: int | None = None
    text: bytes | None = None

    @property
    def needs_record(self) -> bool:
        return self.text is not None

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        return self.tags_code is None or tags_code == self.tags_code

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        assert self.text is not None
        return self.text in record


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"<%d>" % number for number in range(first, first + count)]


def bodies(result: GetMessageResult) -> list[bytes]:
    found = [message.body for message in decode_messages(result.body)]
    assert len(found) == result.message_count
    return found


def test_statuses_and_where_to_go_on(place: Place) -> None:
    parts = Parts(place)
    expected = GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert parts.get(5) == GetMessageResult(expected, 0, 0, 0)
    parts.put_all(numbered(10))
    assert parts.get(10) == GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, 10, 0, 10)
    assert parts.get(11) == GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_BADLY, 10, 0, 10)
    assert parts.get(-1) == GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, 0, 0, 10)
    result = parts.get(4)
    assert (result.status, result.next_begin_offset, result.max_offset) == (GetMessageStatus.FOUND, 10, 10)
    assert bodies(result) == numbered(6, 4)


def test_what_is_before_a_damaged_unit_is_served_and_the_unit_is_named(place: Place) -> None:
    parts = Parts(place)
    parts.put_all(numbered(6))
    path, position = place.queue_file("TopicTest", 0), 3 * UNIT_SIZE
    place.write(path, UNIT.pack(1 << 40, 100, 0), position)
    assert bodies(parts.get(0)) == numbered(3)
    refused = parts.get(3)
    assert (refused.status, refused.body) == (GetMessageStatus.MESSAGE_WAS_REMOVING, b"")
    assert refused.next_begin_offset == 3
    assert "unit 3 of topic TopicTest, queue 0" in refused.damage
    assert f"{path} at {position}" in refused.damage
    assert bodies(parts.get(4)) == numbered(2, 4)


def test_a_slave_does_not_correct_offsets(place: Place) -> None:
    parts = Parts(place, corrects_offsets=False)
    parts.put_all(numbered(3))
    assert parts.get(7).next_begin_offset == 7
    assert parts.get(-3).next_begin_offset == -3
    assert parts.get(7, "Unknown").next_begin_offset == 7


def test_one_read_ends_with_its_queue_file(place: Place) -> None:
    parts = Parts(place, queue_file_size=200)
    parts.put_all(numbered(15))
    assert bodies(parts.get(8)) == numbered(2, 8)
    assert bodies(parts.get(10)) == numbered(5, 10)


def test_no_more_units_are_looked_at_for_who_asks_for_more_messages_than_an_answer_holds(place: Place) -> None:
    """RocketMQ looks at as many as were asked for: 300 bytes of a pull would hold up the broker for a whole file."""
    parts = Parts(place, log_file_size=1 << 20, queue_file_size=20_000 * 20)
    parts.put_all(numbered(2000))
    result = parts.get(0, max_msg_nums=(1 << 31) - 1, message_filter=Filter(tags_code("none")))
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 800)
    limits = attrs.evolve(LIMITS, count_in_memory=1000)
    parts = Parts(Place(SimDisk(), "/other"), limits=limits, log_file_size=1 << 20, queue_file_size=20_000 * 20)
    parts.put_all(numbered(2000))
    result = parts.get(0, max_msg_nums=(1 << 31) - 1, message_filter=Filter(tags_code("none")))
    assert result.next_begin_offset == 1000, "an operator wants longer answers"


def test_units_are_listed_up_to_the_end_of_their_file(place: Place) -> None:
    """What ``queryCq`` shows: 20 units have a file here."""
    parts = Parts(place)
    parts.put_all([b"%02d" % number for number in range(30)])
    listing = read_now(parts.reader.list_units("TopicTest", 0, 15, 100))
    assert listing is not None
    assert (listing.min_offset, listing.max_offset, len(listing.units)) == (0, 30, 5)
    assert {unit.ext for unit in listing.units} == {None}
    assert len({unit.physical_offset for unit in listing.units}) == 5
    for queue_offset, count in ((30, 1), (-1, 1), (0, 0)):
        outside = read_now(parts.reader.list_units("TopicTest", 0, queue_offset, count))
        assert outside is not None
        assert outside.units == ()
    assert read_now(parts.reader.list_units("TopicTest", 9, 0, 1)) is None
    assert read_now(parts.reader.list_units("Nobody", 0, 0, 1)) is None


@pytest.mark.parametrize(("is_interleaved", "longest"), [(False, 1 << 18), (True, 1 << 18), (False, 1000)])
def test_the_fast_path_of_a_pull_returns_the_same(place: Place, is_interleaved: bool, longest: int) -> None:
    parts = Parts(place, log_file_size=4096, queue_file_size=1000, limits=attrs.evolve(LIMITS, bytes_in_memory=longest))
    for number in range(120):
        parts.put(b"%d " % number * (number % 7))
        if is_interleaved:
            parts.put(b"other", "Other", number % 3)
    parts.appender.end_burst()
    answered = 0
    for offset in range(-1, 122):
        for asked in (-7, 0, 1, 5, 32, 64, 1 << 31):
            plain = parts.reader.get_plain_nowait("TopicTest", 0, offset, asked)
            if plain is not None:
                assert plain == parts.get(offset, max_msg_nums=asked)
                answered += 1
    assert answered > 250
    assert parts.reader.get_plain_nowait("Unknown", 0, 0, 32) is None


def test_a_single_record_is_found_only_where_one_begins(place: Place) -> None:
    parts = Parts(place, store_host=encode_host("[2001:db8::2]:10911"))
    places = parts.put_all(numbered(3))
    for at in range(-2, parts.commit_log.wrote_offset + 2):
        for look in (parts.reader.look_message, parts.reader.look_named_message):
            assert (read_now(look(at)) is not None) is (at in places)


@pytest.mark.parametrize("born_host", ["10.9.9.9:9", "[2001:db8::1]:9"])
@pytest.mark.parametrize("store_host", ["127.0.0.1:10911", "[2001:db8::2]:10911"])
def test_only_a_record_that_its_own_queue_names_is_found_for_a_peer(
    place: Place, born_host: str, store_host: str
) -> None:
    """A sender can write a record into a body, and say whatever it likes in it, but no unit that leads there."""
    parts = Parts(place)
    honest = parts.put_all([*numbered(3), b"x" * 800, b"x" * 925, b"x" * 1500])  # also longer than a first read
    forged = []
    for topic, queue_id, queue_offset in (
        ("TopicTest", 0, 0),
        ("TopicTest", 0, 7),  # the offset of the message that the record is in
        ("TopicTest", 0, 1 << 62),
        ("TopicTest", 0, -1),
        ("TopicTest", 7, 0),
        ("TopicTest", -1, 0),
        ("Other", 0, 0),
    ):
        body, at = body_posing_as_record(
            parts.commit_log.wrote_offset, topic=topic, queue_id=queue_id, queue_offset=queue_offset,
            born_host=born_host, store_host=store_host,
        )  # fmt: skip
        honest += parts.put_all([body])
        assert read_now(parts.reader.look_message(at)) == body, "in every other way it is a record"
        forged.append(at)
    for at in range(-2, parts.commit_log.wrote_offset + 200):
        record = read_now(parts.reader.look_named_message(at))
        assert (record is not None) is (at in honest), at
        assert record is None or record == read_now(parts.reader.look_message(at))
    assert not set(forged) & set(honest)


@pytest.mark.parametrize("position", [0, 36, 84, 88])
@pytest.mark.parametrize("value", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x30"])
def test_what_a_forged_record_says_of_sizes_costs_nothing(place: Place, position: int, value: bytes) -> None:
    """Total size, system flag (which address is how long), size of the body, of the topic."""
    parts = Parts(place)
    body, at = body_posing_as_record(parts.commit_log.wrote_offset, topic="TopicTest", body=b"")
    parts.put_all([body[:position] + value + body[position + 4 :]])
    steps, sizes = parts.reader.look_named_message(at), []
    with pytest.raises(StopIteration) as done:
        reads = next(steps)
        while True:
            sizes += [size for _, _, size in reads]
            reads = steps.send([mapped_file.file().read(where, size) for mapped_file, where, size in reads])
    assert done.value.value is None
    assert max(sizes) <= 1024


def test_a_record_is_found_for_a_peer_as_long_as_its_unit_is_there(place: Place) -> None:
    parts = Parts(place)
    (first, second) = parts.put_all(numbered(2))
    parts.queues.find("TopicTest", 0).min_offset = 1
    assert read_now(parts.reader.look_named_message(first)) is None
    assert read_now(parts.reader.look_named_message(second)) is not None
    parts.queues.remove_topic("TopicTest", parts.commit_log.wrote_offset)
    assert read_now(parts.reader.look_named_message(second)) is None


def test_search_by_time_finds_the_nearest_of_two_neighbours(place: Place) -> None:
    parts = Parts(place, queue_file_size=100)
    begin_ms = parts.clock.timestamp_ms()
    for number in range(23):
        parts.put_all([b"%d" % number])
        parts.clock.advance_ms(100)

    def found(milliseconds: int) -> int:
        return read_now(parts.reader.offset_by_time("TopicTest", 0, begin_ms + milliseconds))

    for number in range(23):
        assert found(100 * number) == number
    assert (found(740), found(750), found(760)) == (7, 7, 8), "a tie goes to the earlier one"
    assert (found(-5), found(99_999)) == (0, 22)
    assert found(440) == 5, "as in RocketMQ the file is chosen first, and then only its messages count"


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 6), st.integers(-1, 60))
@settings(max_examples=60)
def test_search_by_time_finds_the_first_of_several_messages_of_that_time(
    steps: list[int], units_in_file: int, wanted: int
) -> None:
    """Over the edges of files, at the begin and at the end; none of that time or later is before what is found."""
    parts = Parts(Place(SimDisk(), "/store"), queue_file_size=20 * units_in_file)
    begin_ms = parts.clock.timestamp_ms()
    times = []
    for step in (0, *steps):
        parts.clock.advance_ms(step)
        parts.put_all([b"x"])
        times.append(parts.clock.timestamp_ms() - begin_ms)
    found = read_now(parts.reader.offset_by_time("TopicTest", 0, begin_ms + wanted))
    if wanted in times:
        assert found == times.index(wanted)
    assert all(each < wanted for each in times[:found])


def test_search_by_time_skips_what_is_no_longer_in_the_log(place: Place) -> None:
    parts = Parts(place)
    begin_ms = parts.clock.timestamp_ms()
    for _ in range(30):
        parts.put_all([b"x" * 500])
        parts.clock.advance_ms(100)
    first = next(each.queue_offset for each in parts.messages() if each.physical_offset >= LOG_FILE_SIZE)
    parts.close()
    place.disk.unlink(place.log_file())
    again = Parts(place)
    assert read_now(again.reader.offset_by_time("TopicTest", 0, begin_ms)) == first
    assert read_now(again.reader.store_timestamp("TopicTest", 0, first)) == begin_ms + 100 * first
    assert read_now(again.reader.store_timestamp("TopicTest", 0, first - 1)) == -1


# ---- files that go while the disk is waited for -------------------------------------------------------------------


def read_with_interruption(steps: Steps[T], after: int, interrupt: Callable[[], None]) -> tuple[T, int]:
    """Run a read as with a worker thread; something happens while it waits for its n-th answer."""
    count = 0
    try:
        reads = next(steps)
        while True:
            held = [mapped_file.hold() for mapped_file, _, _ in reads]
            if count == after:
                interrupt()
            contents = [file.read(position, size) for file, (_, position, size) in zip(held, reads, strict=True)]
            for mapped_file, _, _ in reads:
                mapped_file.release()
            count += 1
            reads = steps.send(contents)
    except StopIteration as done:
        return done.value, count


def lose_files(parts: Parts, is_deletion: bool) -> None:
    """Delete all files of the log but the last, and what the queue has of them; or else the whole topic."""
    if not is_deletion:
        parts.queues.remove_topic("TopicTest", parts.commit_log.wrote_offset)
        return
    commit_log = parts.commit_log
    commit_log.flushed_offset = commit_log.wrote_offset
    while commit_log.first_to_go() is not None:
        parts.place.disk.unlink(commit_log.take_first(lambda file: file.close()).path)
    delete_expired_files(parts.queues.find("TopicTest", 0), parts.place.disk, commit_log.min_offset)


@pytest.mark.parametrize("is_deletion", [True, False])
@pytest.mark.parametrize("text", [None, b"5>"])
def test_a_pull_goes_on_when_its_files_are_deleted(place: Place, is_deletion: bool, text: bytes | None) -> None:
    """By expiry, or with the whole topic."""
    for after in range(100):
        parts = Parts(Place(place.disk, f"{place.root}/{after}"), limits=attrs.evolve(LIMITS, bytes_in_memory=2000))
        parts.put_all([body.ljust(600) for body in numbered(90)])

        steps = parts.reader.get_message("TopicTest", 0, 3, 32, Filter(text=text))
        result, count = read_with_interruption(steps, after, partial(lose_files, parts, is_deletion))
        found = bodies(result)
        wanted = [body.ljust(600) for body in numbered(17, 3) if text is None or text in body]
        assert found == wanted[: len(found)]
        assert found or after < count
        parts.kill()
        if count <= after:
            break
    assert after > 1


@pytest.mark.parametrize("is_deletion", [True, False])
def test_a_search_by_time_goes_on_when_files_are_deleted(place: Place, is_deletion: bool) -> None:
    for after in range(100):
        parts = Parts(Place(place.disk, f"{place.root}/{after}"))
        began_ms = parts.clock.timestamp_ms()
        for body in numbered(90):
            parts.put_all([body.ljust(600)])
            parts.clock.advance_ms(1000)

        steps = parts.reader.offset_by_time("TopicTest", 0, began_ms + 85_000)
        found, count = read_with_interruption(steps, after, partial(lose_files, parts, is_deletion))
        assert found == 85 or after < count, "else it may be any that is left, or 0"
        parts.kill()
        if count <= after:
            assert found == 85
            break
    assert after > 1


@pytest.mark.parametrize("file_count", [1, 8, 64, 256])
def test_a_search_by_time_reads_as_often_as_a_bisection(file_count: int) -> None:
    """Of units and records together, over all files: looking into each file of a queue would take minutes."""
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"), log_file_size=1 << 16)
    count = file_count * 20
    began_ms = parts.clock.timestamp_ms()
    for number in range(count):
        parts.clock.advance_ms(10)
        parts.put(b"%d" % number)
        parts.appender.end_burst()
    assert len(parts.queues.find("TopicTest", 0).files) == file_count
    reads_max = 2 * (count.bit_length() + 2)
    for wanted in {0, 1, count // 3, count // 2, count - 2, count - 1}:
        before = disk.calls["read"]
        found = read_now(parts.reader.offset_by_time("TopicTest", 0, began_ms + 10 * (wanted + 1)))
        assert found == wanted
        assert disk.calls["read"] - before <= reads_max
    for timestamp_ms in (0, began_ms, began_ms + 10 * count + 1, 1 << 62):
        before = disk.calls["read"]
        read_now(parts.reader.offset_by_time("TopicTest", 0, timestamp_ms))
        assert disk.calls["read"] - before <= reads_max
