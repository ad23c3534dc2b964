"""Pulls by the kernels find what the general path finds, or leave it to that path: damage, limits, cold bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy import BUILD
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.kernels import pull as kernel
from rocketpy.protocol.selector.sql92 import Judge, Sql92Selector, compile_sql92
from rocketpy.protocol.selector.sql92_grammar import parse
from rocketpy.protocol.selector.sql92_kernel import kernel_selector
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.stored_message import decode_record_properties
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.read.queue_scan import ReadLimits
from rocketpy.store.read.record_spans import SPAN_KERNELS, SpanKernels
from rocketpy.store.results import GetMessageResult, GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import LIMITS, Parts, Place

KERNELS = SpanKernels(kernel.span_of, kernel.are_records, kernel.records_of, kernel.tagged_units)
TEXTS = [b"n\x010", b"n\x015", b"n\x01-7", b"n\x01x", b"m\x015", b"n\x015\x02n\x011"]
UNIT = struct.Struct(">qiq")


@attrs.frozen
class Filter:
    """An SQL92 selector, with its kernel unless that is left out."""

    selector: Sql92Selector
    judge: Judge | None
    needs_record: bool = True

    @classmethod
    def of(cls, text: str, *, has_kernel: bool = True) -> Filter:
        as_kernel = kernel_selector(parse(text))
        assert as_kernel is not None
        return cls(compile_sql92(text), as_kernel.judge if has_kernel else None)

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        return True

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        return self.selector.matches(decode_record_properties(record))


def reader_of(parts: Parts, limits: ReadLimits = LIMITS, kernels: SpanKernels | None = KERNELS) -> MessageReader:
    return MessageReader(
        commit_log=parts.commit_log,
        queues=parts.queues,
        limits=limits,
        corrects_offsets=True,
        busy_seconds=lambda: 0.0,
        span_kernels=kernels,
    )


def filled(count: int = 120, *, other: int = 0, gap: int = 10, properties: str = "", **settings: object) -> Parts:
    """A store with messages of one queue; ``other`` of each so many is followed by one of another queue."""
    parts = Parts(
        Place(SimDisk(), "/store"),
        **{"log_file_size": 1 << 15, "queue_file_size": 1000, "message_size_max": 1 << 15, **settings},  # type: ignore[arg-type]
    )
    for number in range(count):
        text = properties.encode() or TEXTS[number % len(TEXTS)]
        parts.put(b"%d " % number * (number % 7), properties=text)
        if other and not number % other:
            parts.put(b"-" * gap, "Other")
    parts.appender.end_burst()
    return parts


def same(found: GetMessageResult | None, expected: GetMessageResult) -> bool:
    """Compare a result of the fast path, if there is one; return whether there is."""
    if found is None:
        return False
    assert found == attrs.evolve(expected, last_record_size=found.last_record_size)
    if found.last_record_size:
        (size,) = struct.unpack_from(">i", found.body, len(found.body) - found.last_record_size)
        assert size == found.last_record_size
    return True


@pytest.mark.parametrize(("other", "gap"), [(0, 0), (1, 10), (3, 10), (5, 9000)])
def test_messages_are_those_of_the_general_path(other: int, gap: int) -> None:
    parts = filled(other=other, gap=gap)
    reader, answered = reader_of(parts), 0
    for offset in range(-1, 122):
        for asked in (-7, 0, 1, 5, 32, 64, 1 << 31):
            found = reader.get_plain_nowait("TopicTest", 0, offset, asked)
            answered += same(found, parts.get(offset, max_msg_nums=asked))
    assert answered > (150 if gap > 5000 else 450)


@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("step", [1, 3, -1, 7, 50])
def test_messages_read_along_the_log_are_those_of_the_general_path(other: int, step: int) -> None:
    """In the order of the log, backward, and across the end of a file, with the log growing meanwhile."""
    parts = filled(160, other=other, log_file_size=1 << 14, message_size_max=1 << 13)
    reader = reader_of(parts)
    for turn in range(0, 160 * abs(step), abs(step)):
        offset = (turn if step > 0 else 159 - turn) % 160
        if not turn % 20:
            parts.put(b"more")
            parts.appender.end_burst()
        same(reader.get_plain_nowait("TopicTest", 0, offset, 5), parts.get(offset, max_msg_nums=5))
        same(reader.get_plain_nowait("Other", 0, offset, 3), parts.get(offset, topic="Other", max_msg_nums=3))
        judged = reader.get_filtered_nowait("TopicTest", 0, offset, 4, Filter.of("n = 5"))
        plain = Filter.of("n = 5", has_kernel=False)
        same(judged, parts.get(offset, max_msg_nums=4, message_filter=plain))


def test_records_side_by_side_take_one_read_for_many() -> None:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"), queue_file_size=8000, log_file_size=1 << 20)
    for number in range(300):
        parts.put(b"%d" % number, "TopicTest", number // 10 % 3)
    parts.appender.end_burst()
    reader = reader_of(parts)
    for _ in range(3):  # again from the beginning, too
        before = disk.calls["read_nowait"]
        for offset in range(0, 100, 10):
            for queue_id in range(3):
                found = reader.get_plain_nowait("TopicTest", queue_id, offset, 10)
                assert found == parts.get(offset, queue_id=queue_id, max_msg_nums=10)
        reads = disk.calls["read_nowait"] - before
        assert reads < 18, "of 60 without bytes ahead"


def test_records_ahead_that_are_cold_are_not_read_and_those_wanted_are() -> None:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"), queue_file_size=8000, log_file_size=1 << 20)
    parts.put_all([b"%d" % number for number in range(100)])
    reader = reader_of(parts)
    for offset in (0, 1, 2):
        assert reader.get_plain_nowait("TopicTest", 0, offset, 1) is not None
    disk.evict(parts.place.log_file())
    assert reader.get_plain_nowait("TopicTest", 0, 3, 1) is not None, "it was read with the one before"
    assert reader.get_plain_nowait("TopicTest", 0, 2, 98) is not None
    assert reader_of(parts).get_plain_nowait("TopicTest", 0, 3, 1) is None


@pytest.mark.parametrize("kernels", [KERNELS, None])
@pytest.mark.parametrize(("other", "gap"), [(0, 0), (1, 10)])
def test_a_head_goes_before_the_same_messages(other: int, gap: int, kernels: SpanKernels | None) -> None:
    parts = filled(other=other, gap=gap)
    reader = reader_of(parts, kernels=kernels)
    for offset in range(0, 120, 7):
        plain = reader.read_plain_nowait("TopicTest", 0, offset, 32)
        headed = reader.read_plain_nowait("TopicTest", 0, offset, 32, lambda *numbers: repr(numbers).encode())
        assert (plain is None) == (headed is None)
        if plain is None or headed is None:
            continue
        head = repr((plain.next_begin_offset, plain.min_offset, plain.max_offset, len(plain.body))).encode()
        assert headed.body == head + plain.body
        assert (headed.head_size, plain.head_size) == (len(head), 0)
        for name in ("next_begin_offset", "min_offset", "max_offset", "message_count", "last_record_size"):
            assert getattr(headed, name) == getattr(plain, name)
    assert reader.read_plain_nowait("TopicTest", 0, 0, 32, lambda *_: None) is None, "the caller declines"


@pytest.mark.parametrize("other", [0, 1, 3])
@pytest.mark.parametrize(
    "text", ["n = 5", "n > 0", "n IS NULL", "n IS NOT NULL", "m = 5 OR n = 0", "n = 99", "n < 9", "n IN ('x')"]
)
def test_messages_that_a_selector_wants_are_those_of_the_general_path(text: str, other: int) -> None:
    """Of numbers with a sign and of texts that are none the kernel decides nothing."""
    parts = filled(other=other)
    reader, answered = reader_of(parts), 0
    plain = Filter.of(text, has_kernel=False)
    for offset in range(-1, 122, 6):
        for asked in (-7, 0, 1, 5, 32, 64, 1 << 31):
            found = reader.get_filtered_nowait("TopicTest", 0, offset, asked, Filter.of(text))
            answered += same(found, parts.get(offset, max_msg_nums=asked, message_filter=plain))
    assert answered > 50


TAGS = ["", "TagA", "TagB", "other"]


def tagged(count: int = 120, *, every: int = 1, **settings: object) -> Parts:
    """A store with messages of one queue, of which each so many has one of the tags in turn."""
    parts = Parts(
        Place(SimDisk(), "/store"),
        **{"log_file_size": 1 << 15, "queue_file_size": 10_000, "message_size_max": 1 << 15, **settings},  # type: ignore[arg-type]
    )
    for number in range(count):
        tag = TAGS[number // every % len(TAGS)] if not number % every else ""
        parts.put(b"%d " % number * (number % 7), properties=f"TAGS\x01{tag}".encode() if tag else b"", tags=tag)
    parts.appender.end_burst()
    return parts


@pytest.mark.parametrize("every", [1, 9])
@pytest.mark.parametrize(
    "expression", ["TagA", "TagA || TagB", "never", "other||TagA||TagB", "||".join("abcdefghijklmnop")]
)
def test_messages_with_a_tag_are_those_of_the_general_path(expression: str, every: int) -> None:
    parts = tagged(300, every=every)
    wanted, reader, answered = TagFilter(parse_tag_expression("", expression)), reader_of(parts), 0
    for offset in range(-1, 302, 3):
        for asked in (-7, 0, 1, 5, 32, 64, 1 << 31):
            found = reader.get_filtered_nowait("TopicTest", 0, offset, asked, wanted)
            answered += same(found, parts.get(offset, max_msg_nums=asked, message_filter=wanted))
    assert answered > 200


def test_tags_that_a_kernel_does_not_look_for_are_left_to_the_general_path() -> None:
    """Because they are many, or all; or codes that a peer has made up."""
    parts = tagged(10)
    many = parse_tag_expression("", "||".join(map(str, range(17))))
    made_up = SubscriptionData("TopicTest", "x", code_set=[1 << 63])
    for each in (many, made_up, parse_tag_expression("", "*")):
        assert reader_of(parts).get_filtered_nowait("TopicTest", 0, 0, 32, TagFilter(each)) is None


def test_a_long_message_that_is_not_wanted_ends_a_result_as_on_the_general_path() -> None:
    """Sizes are checked before filters."""
    limits = attrs.evolve(LIMITS, bytes_in_memory=1000)
    parts = Parts(Place(SimDisk(), "/store"), log_file_size=1 << 15, message_size_max=1 << 14, limits=limits)
    for size, tag in ((100, "TagA"), (900, "TagB"), (100, "TagA")):
        parts.put(b"x" * size, tags=tag)
    parts.appender.end_burst()
    wanted = TagFilter(parse_tag_expression("", "TagA"))
    assert parts.get(0, message_filter=wanted).next_begin_offset == 1
    assert reader_of(parts, limits).get_filtered_nowait("TopicTest", 0, 0, 32, wanted) is None
    assert reader_of(parts, limits).get_filtered_nowait("TopicTest", 0, 2, 32, wanted) is not None


def test_a_tag_among_messages_far_from_the_end_is_left_to_the_general_path() -> None:
    """It may suggest a slave, also where none of them is wanted."""
    limits = attrs.evolve(LIMITS, memory_bytes=2000)
    parts = tagged(120, limits=limits)
    reader = reader_of(parts, limits)
    for expression in ("TagA", "never"):
        wanted = TagFilter(parse_tag_expression("", expression))
        answered = set()
        for offset in range(120):
            found = reader.get_filtered_nowait("TopicTest", 0, offset, 1, wanted)
            answered.add(same(found, parts.get(offset, max_msg_nums=1, message_filter=wanted)))
        assert True in answered
    assert reader.get_filtered_nowait("TopicTest", 0, 0, 1, TagFilter(parse_tag_expression("", "TagA"))) is None


def test_limits_of_bytes_are_the_general_path_s() -> None:
    limits = attrs.evolve(LIMITS, bytes_in_memory=1000)
    parts = filled(limits=limits)
    reader = reader_of(parts, limits)
    for asked in (1, 2, 5, 32):
        expected = parts.get(0, max_msg_nums=asked)
        assert same(reader.get_plain_nowait("TopicTest", 0, 0, asked), expected) is (asked < 32)
        wants_all = parts.get(0, max_msg_nums=asked, message_filter=Filter.of("TRUE", has_kernel=False))
        assert same(reader.get_filtered_nowait("TopicTest", 0, 0, asked, Filter.of("TRUE")), wants_all) is (asked < 32)


def test_messages_far_from_the_end_of_the_log_are_left_to_the_general_path() -> None:
    limits = attrs.evolve(LIMITS, memory_bytes=2000)
    parts = filled(limits=limits)
    reader = reader_of(parts, limits)
    assert reader.get_plain_nowait("TopicTest", 0, 0, 1) is None
    assert reader.get_filtered_nowait("TopicTest", 0, 0, 1, Filter.of("TRUE")) is None
    assert reader.get_filtered_nowait("TopicTest", 0, 119, 1, Filter.of("TRUE")) is not None


def test_a_filter_without_a_kernel_is_left_to_the_general_path() -> None:
    parts = filled()
    wants_all = Filter.of("TRUE", has_kernel=False)
    assert reader_of(parts).get_filtered_nowait("TopicTest", 0, 0, 1, wants_all) is None
    assert reader_of(parts, kernels=None).get_filtered_nowait("TopicTest", 0, 0, 1, Filter.of("TRUE")) is None
    assert reader_of(parts).get_filtered_nowait("Unknown", 0, 0, 1, Filter.of("TRUE")) is None


def test_a_queue_with_an_extension_is_left_to_the_general_path() -> None:
    """It may know that a message does not match, without a look at its record."""
    parts = filled()
    parts.queues.find("TopicTest", 0).ext = object()  # type: ignore[assignment]
    assert reader_of(parts).get_filtered_nowait("TopicTest", 0, 0, 1, Filter.of("TRUE")) is None


def test_long_records_are_left_to_the_path_that_looks_at_the_clock_after_each() -> None:
    parts = Parts(Place(SimDisk(), "/store"), log_file_size=1 << 16, message_size_max=1 << 15)
    parts.put_all([b"x" * 5000] * 2)
    assert reader_of(parts).get_filtered_nowait("TopicTest", 0, 0, 2, Filter.of("TRUE")) is None


@pytest.mark.parametrize(("value", "next_offset"), [("x", 4), ("5", 96)])
def test_a_selector_that_takes_too_long_ends_the_result(value: str, next_offset: int) -> None:
    """The clock, here a second later each time, is read after a record that the closures decide, or after 64 KiB."""
    parts = filled(400, log_file_size=1 << 18, queue_file_size=10_000, properties=f"n\x01{value}\x02m\x01{'x' * 600}")
    seconds = iter(range(100))
    reader = MessageReader(
        commit_log=parts.commit_log,
        queues=parts.queues,
        limits=LIMITS,
        corrects_offsets=True,
        busy_seconds=lambda: float(next(seconds)),
        span_kernels=KERNELS,
    )
    result = reader.get_filtered_nowait("TopicTest", 0, 0, 4, Filter.of("n = 99"))
    assert result is not None
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, next_offset)


@pytest.mark.parametrize("what", ["log", "queue"])
def test_cold_bytes_are_not_waited_for(what: str) -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    parts.put_all([b"1", b"2"])
    reader = reader_of(parts)
    assert reader.get_filtered_nowait("TopicTest", 0, 0, 2, Filter.of("TRUE")) is not None
    disk.evict(place.log_file() if what == "log" else place.queue_file("TopicTest", 0))
    assert reader.get_plain_nowait("TopicTest", 0, 0, 2) is None
    assert reader.get_filtered_nowait("TopicTest", 0, 0, 2, Filter.of("TRUE")) is None


WANTED = [
    (TagFilter(parse_tag_expression("", "TagA||TagB")), TagFilter(parse_tag_expression("", "TagA||TagB"))),
    (Filter.of("TRUE"), Filter.of("TRUE", has_kernel=False)),
]
"""Filters, and the same ones without a kernel."""


@given(
    store=st.sampled_from([partial(filled, 10, other=1), partial(tagged, 10)]),
    number=st.integers(0, 9),
    field=st.integers(0, 2),
    value=st.one_of(
        st.integers(-300, 3000), st.sampled_from([-1, 0, 1, 2**31 - 1, -(2**31), -(2**31) - 1, 2**62, 2**63 - 1])
    ),
)
@settings(deadline=None)
def test_a_unit_that_lies_is_left_to_the_general_path(
    store: Callable[[], Parts], number: int, field: int, value: int
) -> None:
    """Or it names a record of another queue, which both return. The address of a lost extension every filter wants."""
    parts = store()
    path = parts.place.queue_file("TopicTest", 0)
    unit = list(UNIT.unpack_from(parts.place.read(path), number * UNIT.size))
    unit[field] = value if field != 1 else max(-(2**31), min(2**31 - 1, value))
    parts.place.write(path, UNIT.pack(*unit), number * UNIT.size)
    reader = reader_of(parts)
    for offset in (0, number):
        same(reader.get_plain_nowait("TopicTest", 0, offset, 32), parts.get(offset))
        for wanted, general in WANTED:
            found = reader.get_filtered_nowait("TopicTest", 0, offset, 32, wanted)
            same(found, parts.get(offset, message_filter=general))


@given(position=st.integers(0, 2000), wrong=st.binary(min_size=1, max_size=40), text=st.sampled_from(["TRUE", "n = 5"]))
@settings(deadline=None)
def test_a_damaged_log_is_read_as_by_the_general_path(position: int, wrong: bytes, text: str) -> None:
    parts = filled(10)
    parts.place.write(parts.place.log_file(), wrong, position)
    reader = reader_of(parts)
    same(reader.get_plain_nowait("TopicTest", 0, 0, 32), parts.get(0))
    judged = reader.get_filtered_nowait("TopicTest", 0, 0, 32, Filter.of(text))
    same(judged, parts.get(0, message_filter=Filter.of(text, has_kernel=False)))


def test_records_in_two_log_files_are_left_to_the_general_path() -> None:
    parts = Parts(Place(SimDisk(), "/store"))
    parts.put_all([b"a" * 3000, b"b" * 3000, b"c" * 3000])
    assert reader_of(parts).get_plain_nowait("TopicTest", 0, 0, 3) is None
    assert reader_of(parts).get_plain_nowait("TopicTest", 0, 0, 2) is not None


def test_the_kernels_are_used_where_they_are_compiled() -> None:
    assert (SPAN_KERNELS is not None) == BUILD.has_kernels
