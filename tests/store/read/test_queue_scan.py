"""One walk over units against one that a reader can check by eye: which messages an answer holds, and why it ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import attrs
import pytest

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.read import queue_scan
from rocketpy.store.read.queue_scan import GAP_MAX, RECORD_HEAD_CHECK, QueueScan, ReadLimits
from rocketpy.store.results import GetMessageStatus, MessageFilter

FILE_SIZE = 100_000
LOG_END = 5 * FILE_SIZE
LIMITS = ReadLimits(bytes_in_memory=3000, count_in_memory=6, bytes_in_disk=1500, count_in_disk=3, memory_bytes=150_000)


@attrs.frozen(eq=False)
class File:
    base_offset: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + FILE_SIZE


IN_MEMORY = attrs.evolve(LIMITS, memory_bytes=LOG_END, bytes_in_memory=100_000)


class Log:
    """Records of a size each, in files of one size; what is not in ``records`` is no record."""

    def __init__(self, records: dict[int, int], *, min_offset: int = 0) -> None:
        self.records = records
        self.min_offset = min_offset
        self._files = [File(base) for base in range(0, 5 * FILE_SIZE, FILE_SIZE)]

    @property
    def files(self) -> Log:
        return self

    def find(self, offset: int) -> MappedFile | None:
        return cast("MappedFile", self._files[offset // FILE_SIZE])

    def content(self, begin: int, size: int) -> bytes:
        found = bytearray(size)
        for offset, record_size in self.records.items():
            if begin <= offset and offset + record_size <= begin + size:
                RECORD_HEAD_CHECK.pack_into(found, offset - begin, record_size, MESSAGE_MAGIC_CODE, offset)
        return bytes(found)


def scan_all(
    log: Log,
    units: Sequence[tuple[int, int, int]],
    *,
    log_end: int = LOG_END,
    count_max: int = 32,
    message_filter: MessageFilter | None = None,
    ext_units: dict[int, CqExtUnit] | None = None,
    limits: ReadLimits = LIMITS,
) -> tuple[QueueScan, list[tuple[int, int]]]:
    """Walk over units as the reader does, all of them at a time; return the scan and what it read."""
    scan = QueueScan(limits, log_end, message_filter, 0, len(units), count_max)
    reads: list[tuple[int, int]] = []
    while not scan.is_full and scan.next_offset < scan.end_offset:
        part = units[scan.next_offset : scan.next_offset + scan.count_to_look_at()]
        wanted = scan.choose(b"".join(UNIT.pack(*each) for each in part), cast("CommitLog", log), ext_units or {})
        places = [(file.base_offset + position, size) for file, position, size in wanted]
        reads += places
        if places:
            scan.take([log.content(*place) for place in places])
    return scan, reads


def served(scan: QueueScan) -> list[int]:
    """The physical offsets of the records in the answer."""
    found, body = [], b"".join(scan.bodies)
    while body:
        size, _, place = RECORD_HEAD_CHECK.unpack_from(body)
        found.append(place)
        body = body[size:]
    return found


def log_of(sizes: Sequence[int], begin: int = 0) -> tuple[Log, list[tuple[int, int, int]]]:
    """A log of consecutive records, and their units."""
    records: dict[int, int] = {}
    for size in sizes:
        records[begin] = size
        begin += size
    return Log(records), [(offset, size, 0) for offset, size in records.items()]


@pytest.mark.parametrize("seed", range(60))
def test_an_answer_holds_as_many_as_rocketmq_s_limits_allow(seed: int) -> None:
    """The rule by eye: the first always; then while count and bytes allow, fewer for messages far from the end."""
    choose = random.Random(seed)
    log, units = log_of([choose.randrange(40, 1500) for _ in range(12)], begin=choose.choice((0, 345_000, 400_000)))
    count_max = choose.randrange(1, 10)
    expected: list[int] = []
    size_sum = 0
    for place, size, _ in units:
        is_far = LOG_END - place > LIMITS.memory_bytes
        count_limit = min(count_max, LIMITS.count_in_disk if is_far else LIMITS.count_in_memory)
        bytes_limit = LIMITS.bytes_in_disk if is_far else LIMITS.bytes_in_memory
        if expected and (len(expected) >= count_limit or size_sum + size > bytes_limit):
            break
        expected.append(place)
        size_sum += size
    scan, _ = scan_all(log, units, count_max=count_max)
    assert served(scan) == expected
    assert scan.status is GetMessageStatus.FOUND
    assert (scan.message_count, scan.next_offset) == (len(expected), len(expected))


def test_neighbours_are_read_in_one_go_and_what_lies_far_apart_is_not() -> None:
    log = Log({0: 100, 100: 100, 200 + GAP_MAX: 100, 301 + 2 * GAP_MAX: 100})
    scan, reads = scan_all(log, [(place, 100, 0) for place in log.records], limits=IN_MEMORY)
    assert reads == [(0, 300 + GAP_MAX), (301 + 2 * GAP_MAX, 100)]
    assert served(scan) == list(log.records)


def test_two_files_take_two_reads_and_so_does_going_back() -> None:
    log = Log({FILE_SIZE - 100: 100, FILE_SIZE: 100, 50: 100})
    scan, reads = scan_all(log, [(place, 100, 0) for place in log.records], limits=IN_MEMORY)
    assert reads == [(place, 100) for place in log.records]
    assert served(scan) == list(log.records)


# ---- what cannot be served ------------------------------------------------------------------------------------------


@attrs.frozen
class Wanted:
    """Wants units of some tags codes, and of them, if records are asked about, those of some offsets."""

    tags_codes: frozenset[int]
    places: frozenset[int] | None = None

    @property
    def needs_record(self) -> bool:
        return self.places is not None

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        return tags_code in self.tags_codes

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        return self.places is not None and RECORD_HEAD_CHECK.unpack_from(record)[2] in self.places


@pytest.mark.parametrize(
    "wanted",
    [None, Wanted(frozenset([0])), Wanted(frozenset([0]), frozenset([0, 200]))],
    ids=["everything", "by tags", "by records"],
)
@pytest.mark.parametrize(
    ("unit", "what"),
    [
        ((-1, 100, 0), "100 bytes at -1 of a log that ends at 1000"),
        ((100, 0, 0), "0 bytes at 100 of a log that ends at 1000"),
        ((100, -5, 0), "-5 bytes at 100 of a log that ends at 1000"),
        ((950, 51, 0), "51 bytes at 950 of a log that ends at 1000"),
        ((100, 50, 0), "50 bytes at 100 of the log, no record"),
        ((0, 99, 0), "99 bytes at 0 of the log, no record"),
        ((0, 10, 0), "10 bytes at 0 of the log, no record"),
    ],
)
def test_a_unit_that_leads_to_no_record_ends_the_answer_and_says_so_to_who_asks_for_it(
    unit: tuple[int, int, int], what: str, wanted: Wanted | None
) -> None:
    log = Log({0: 100, 200: 100})
    scan, _ = scan_all(log, [(0, 100, 0), unit, (200, 100, 0)], log_end=1000, message_filter=wanted)
    assert (served(scan), scan.next_offset, scan.damage) == ([0], 1, "")
    assert scan.status is GetMessageStatus.FOUND
    scan, _ = scan_all(log, [unit, (200, 100, 0)], log_end=1000, message_filter=wanted)
    assert (served(scan), scan.next_offset) == ([], 0)
    assert (scan.status, scan.damage) == (
        GetMessageStatus.MESSAGE_WAS_REMOVING, f"expected the position of a record, found {what}"
    )  # fmt: skip


@pytest.mark.parametrize("unit", [(99, 100, 0), (0, PRE_BLANK_SIZE, 0)])
def test_expired_records_are_skipped(unit: tuple[int, int, int]) -> None:
    log = Log({200: 100}, min_offset=100)
    scan, _ = scan_all(log, [unit, (200, 100, 0)])
    assert (served(scan), scan.next_offset, scan.damage) == ([200], 2, "")
    scan, _ = scan_all(log, [unit])
    assert (scan.status, scan.next_offset, scan.damage) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 1, "")


# ---- filters --------------------------------------------------------------------------------------------------------


def test_unwanted_tags_are_skipped_without_a_read() -> None:
    log, units = log_of([100] * 10)
    tagged = [(place, size, index % 2) for index, (place, size, _) in enumerate(units)]
    scan, _ = scan_all(log, tagged, message_filter=Wanted(frozenset([1])), limits=IN_MEMORY)
    assert served(scan) == [100, 300, 500, 700, 900]
    scan, reads = scan_all(log, tagged, message_filter=Wanted(frozenset([7])))
    assert (scan.status, scan.next_offset, reads) == (GetMessageStatus.NO_MATCHED_MESSAGE, 10, [])


def test_a_filter_of_records_goes_on_until_the_answer_is_full_of_what_it_wants() -> None:
    log, units = log_of([100] * 40)
    every_third = Wanted(frozenset([0]), frozenset(range(0, 4000, 300)))
    scan, _ = scan_all(log, units, message_filter=every_third, count_max=4, limits=IN_MEMORY)
    assert served(scan) == [0, 300, 600, 900]
    scan, _ = scan_all(log, units, message_filter=Wanted(frozenset([0]), frozenset()))
    assert (scan.status, scan.next_offset, scan.message_count) == (GetMessageStatus.NO_MATCHED_MESSAGE, 40, 0)


def test_a_filter_of_records_ends_at_the_limits_too() -> None:
    """Of messages far from the end three are served, with any filter."""
    log, units = log_of([100] * 40)
    scan, _ = scan_all(log, units, message_filter=Wanted(frozenset([0]), frozenset(range(0, 4000, 300))))
    assert (served(scan), scan.next_offset) == ([0, 300, 600], 7)


def test_an_extension_decides_in_place_of_the_address_and_one_that_is_lost_lets_the_record_decide() -> None:
    address = -(1 << 63) + 5
    log, units = log_of([100])
    tagged = [(units[0][0], 100, address)]
    wanted = Wanted(frozenset([1]))
    for tags_code, found in ((1, [0]), (2, [])):
        ext = {address: CqExtUnit(tags_code, 0, b"")}
        assert served(scan_all(log, tagged, message_filter=wanted, ext_units=ext)[0]) == found
    assert served(scan_all(log, tagged, message_filter=wanted)[0]) == [0]


def test_without_a_filter_no_more_units_are_looked_at_than_can_be_served() -> None:
    scan = QueueScan(LIMITS, 1000, None, 5, 100, 32)
    assert scan.count_to_look_at() == LIMITS.count_in_memory
    assert QueueScan(LIMITS, 1000, None, 5, 100, 2).count_to_look_at() == 2
    assert QueueScan(LIMITS, 1000, None, 98, 100, 32).count_to_look_at() == 2
    assert QueueScan(LIMITS, 1000, Wanted(frozenset()), 5, 100, 2).count_to_look_at() == 95


def test_limits_are_the_settings_with_a_share_of_the_memory() -> None:
    config = MessageStoreConfig()
    limits = ReadLimits.of(config, memory_bytes=1000)
    assert (limits.bytes_in_memory, limits.count_in_memory) == (262_144, 32)
    assert (limits.bytes_in_disk, limits.count_in_disk) == (65_536, 8)
    assert limits.memory_bytes == 400


# ---- judging is bounded ----------------------------------------------------------------------------------------------


class Busy:
    """A filter whose judgement of a record takes so long, and the clock that says so."""

    needs_record = True

    def __init__(self, places: set[int], seconds: float) -> None:
        self.places = places
        self.seconds = seconds
        self.now = 5.0
        self.judged = 0

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        return True

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        self.now += self.seconds
        self.judged += 1
        return RECORD_HEAD_CHECK.unpack_from(record)[2] in self.places


def scan_busy(log: Log, units: Sequence[tuple[int, int, int]], busy: Busy, begin: int, limits: ReadLimits) -> QueueScan:
    scan = QueueScan(limits, LOG_END, busy, begin, len(units), 32, lambda: busy.now)
    while not scan.is_full and scan.next_offset < scan.end_offset:
        part = units[scan.next_offset : scan.next_offset + scan.count_to_look_at()]
        wanted = scan.choose(b"".join(UNIT.pack(*each) for each in part), cast("CommitLog", log), {})
        if wanted:
            scan.take([log.content(file.base_offset + position, size) for file, position, size in wanted])
    return scan


@pytest.mark.parametrize(
    ("size", "seconds", "judged_max"),
    [(200, 0.001, 16), (200, 0.004, 4), (5000, 0.004, 3), (200, 0.5, 4), (5000, 0.5, 1)],
)
def test_an_answer_ends_when_judging_has_taken_long_enough(size: int, seconds: float, judged_max: int) -> None:
    """The event loop serves all connections. The consumer continues at the next offset and misses nothing."""
    log, units = log_of([size] * 60)
    places = {units[number][0] for number in (0, 13, 14, 29, 58)}
    found: list[int] = []
    answers = begin = 0
    while begin < len(units):
        busy = Busy(places, seconds)
        scan = scan_busy(log, units, busy, begin, IN_MEMORY)
        assert busy.judged <= judged_max
        assert scan.next_offset == begin + busy.judged
        expected = GetMessageStatus.FOUND if scan.bodies else GetMessageStatus.NO_MATCHED_MESSAGE
        assert scan.status is expected
        found += served(scan)
        begin = scan.next_offset
        answers += 1
    assert found == sorted(places)
    assert answers >= 60 // judged_max


def test_an_answer_ends_when_it_has_judged_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_scan, "JUDGED_BYTES_MAX", 20_000)
    log, units = log_of([5000] * 60)
    busy = Busy(set(), 0.0)
    scan = scan_busy(log, units, busy, 0, IN_MEMORY)
    assert (scan.next_offset, busy.judged, scan.damage) == (5, 5, "")


def test_a_filter_that_never_takes_long_sees_every_unit() -> None:
    log, units = log_of([100] * 200)
    busy = Busy({units[199][0]}, 1e-6)
    scan = scan_busy(log, units, busy, 0, IN_MEMORY)
    assert (scan.next_offset, busy.judged, served(scan)) == (200, 200, [units[199][0]])
