"""Index files have Java's bytes, chains lead to every key, and a full disk changes nothing."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import TypeAlias, cast

import attrs
import pytest

from rocketpy.errors import DiskFullError, StoreError
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.index.file import (
    HEADER_SIZE,
    ChainSteps,
    IndexFile,
    IndexHeader,
    IndexLayout,
    create_index_file,
    read_index_header,
    select_physical_offsets,
)
from rocketpy.store.index.kernels import index_kernels
from rocketpy.testing.sim.disk import SimDisk

KERNELS = index_kernels()
LAYOUT = IndexLayout(slot_count=7, entry_count=50)
NOW = 1_700_000_000_000
ALWAYS = (0, 1 << 62)
Put: TypeAlias = Callable[[IndexFile, list[int], list[int], list[int]], None]
PATH = "/index"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def new_file(disk: Disk, previous: IndexHeader | None = None) -> IndexFile:
    return create_index_file(disk, PATH, PATH + ".staged", LAYOUT, previous)


def content_of(disk: SimDisk) -> bytes:
    return disk.peek("/")["index"]


def select(
    disk: Disk,
    index_file: IndexFile,
    key_hash: int,
    count_max: int = 64,
    period: tuple[int, int] = ALWAYS,
    steps: ChainSteps | None = None,
) -> list[int]:
    steps = steps or ChainSteps()
    return select_physical_offsets(disk, index_file, index_file.header, key_hash, count_max, *period, steps)


class JavaIndexFile:
    """``IndexFile.putKey`` line by line, one key at a time, on plain bytes."""

    def __init__(self, layout: IndexLayout, previous: IndexHeader | None = None) -> None:
        self.layout = layout
        self.content = bytearray(layout.file_size)
        self.begin = self.end = self.begin_offset = self.end_offset = 0
        if previous is not None:
            self.begin = self.end = previous.end_timestamp_ms
            self.begin_offset = self.end_offset = previous.end_physical_offset
        self.slots_used, self.count = 0, 1
        self._header()

    def put(self, key_hash: int, physical_offset: int, timestamp_ms: int) -> None:
        slot = HEADER_SIZE + key_hash % self.layout.slot_count * 4
        (older,) = struct.unpack_from(">i", self.content, slot)
        if older <= 0 or older > self.count:
            older = 0
        seconds = (timestamp_ms - self.begin) // 1000 if self.begin > 0 else 0
        seconds = min(max(seconds, 0), 0x7FFF_FFFF)
        position = HEADER_SIZE + self.layout.slot_count * 4 + self.count * 20
        struct.pack_into(">iqii", self.content, position, key_hash, physical_offset, seconds, older)
        struct.pack_into(">i", self.content, slot, self.count)
        if self.count <= 1:
            self.begin, self.begin_offset = timestamp_ms, physical_offset
        self.slots_used += older == 0
        self.count += 1
        self.end, self.end_offset = timestamp_ms, physical_offset
        self._header()

    def _header(self) -> None:
        values = self.begin, self.end, self.begin_offset, self.end_offset, self.slots_used, self.count
        struct.pack_into(">qqqqii", self.content, 0, *values)


def put_packed(file: IndexFile, hashes: list[int], offsets: list[int], times: list[int]) -> None:
    keys = b"".join(struct.pack(">iqq", *key) for key in zip(hashes, offsets, times, strict=True))
    file.put_packed(keys, KERNELS)


@pytest.fixture(params=[IndexFile.put, put_packed], ids=["general", "kernels"])
def put(request: pytest.FixtureRequest) -> Put:
    return request.param


@pytest.mark.parametrize("seed", range(20))
def test_bursts_make_the_bytes_that_java_makes_one_by_one(disk: SimDisk, seed: int, put: Put) -> None:
    choices = random.Random(seed)
    previous = IndexHeader(NOW, NOW + 5_000, 10, 900, 3, 5) if seed % 2 else None
    java, ours = JavaIndexFile(LAYOUT, previous), new_file(disk, previous)
    assert content_of(disk) == bytes(java.content)
    offset, time = 1_000, NOW
    while ours.room:
        count = choices.randint(1, min(ours.room, 9))
        hashes = [choices.choice((0, 1, 7, 14, 2**31 - 1, choices.randrange(2**31))) for _ in range(count)]
        offsets = [offset := offset + choices.randrange(3) * 100 for _ in range(count)]
        times = [time := max(1, time + choices.randrange(-3_000, 9_000)) for _ in range(count)]
        put(ours, hashes, offsets, times)
        for each in zip(hashes, offsets, times, strict=True):
            java.put(*each)
        assert content_of(disk) == bytes(java.content)
    ours.close()


def test_times_beyond_what_java_can_count_are_cut(disk: SimDisk, put: Put) -> None:
    java, ours = JavaIndexFile(LAYOUT), new_file(disk)
    for time in (1, 1 + (2**31 - 1) * 1000, 1 << 60, 0):
        put(ours, [5], [10], [time])
        java.put(5, 10, time)
    assert content_of(disk) == bytes(java.content)


def test_nonsense_in_slots_counts_as_nothing(disk: SimDisk, put: Put) -> None:
    """After a crash slots may hold anything; negative numbers and those of entries that are not there are ignored."""
    java, ours = JavaIndexFile(LAYOUT), new_file(disk)
    slots = struct.pack(">7i", -1, 2, 50, -(2**31), 2**31 - 1, 0, 1)
    disk.open("/index").write(HEADER_SIZE, slots)
    java.content[HEADER_SIZE : HEADER_SIZE + 28] = slots
    hashes = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    put(ours, hashes, list(range(10)), [NOW] * 10)
    for offset, key_hash in enumerate(hashes):
        java.put(key_hash, offset, NOW)
    assert content_of(disk) == bytes(java.content)
    for key_hash in range(7):
        assert select(disk, ours, key_hash) == [offset for offset in reversed(range(10)) if hashes[offset] == key_hash]


def test_keys_are_found_newest_first_in_their_period(disk: SimDisk) -> None:
    ours = new_file(disk)
    ours.put([5, 12, 5, 6, 5], [10, 20, 30, 40, 50], [NOW, NOW + 1_000, NOW + 2_000, NOW + 3_000, NOW + 4_500])
    assert select(disk, ours, 5) == [50, 30, 10]
    assert select(disk, ours, 12) == [20]
    assert select(disk, ours, 19) == []
    assert select(disk, ours, 5, 2) == [50, 30]
    assert select(disk, ours, 5, 0) == []
    assert select(disk, ours, 5, period=(NOW + 1, NOW + 4_000)) == [50, 30], "times are known to the second"
    assert select(disk, ours, 5, period=(NOW, NOW + 3_999)) == [30, 10]


def test_a_damaged_chain_ends(disk: SimDisk) -> None:
    ours = new_file(disk)
    ours.put([5, 5, 5], [10, 20, 30], [NOW] * 3)
    position = LAYOUT.entries_position + 2 * 20
    disk.open("/index").write(position + 16, struct.pack(">i", 3))
    assert select(disk, ours, 5) == [30, 20]
    disk.open("/index").write(position + 12, struct.pack(">i", -1))
    assert select(disk, ours, 5) == [30]


@pytest.mark.parametrize(("left", "found", "is_short"), [(2, [50, 40], True), (5, [50, 40, 30, 20, 10], False)])
def test_a_chain_is_walked_as_far_as_steps_are_left(disk: SimDisk, left: int, found: list[int], is_short: bool) -> None:
    ours = new_file(disk)
    ours.put([5] * 5, [10, 20, 30, 40, 50], [NOW] * 5)
    steps = ChainSteps(left)
    assert select(disk, ours, 5, steps=steps) == found
    assert (steps.left, steps.is_short) == (0, is_short)


def test_entries_of_other_keys_and_times_are_steps_too(disk: SimDisk) -> None:
    ours = new_file(disk)
    ours.put([5, 12, 12, 5], [10, 20, 30, 40], [NOW, NOW, NOW, NOW + 9_000])
    steps = ChainSteps(3)
    assert select(disk, ours, 5, period=(0, NOW), steps=steps) == []
    assert steps.is_short


def test_entries_older_than_the_period_end_a_walk(disk: SimDisk) -> None:
    ours = new_file(disk)
    ours.put([5] * 6, list(range(6)), [NOW + 1_000 * number for number in range(6)])
    steps = ChainSteps(100)
    assert select(disk, ours, 5, period=(NOW + 4_000, NOW + 99_000), steps=steps) == [5, 4]
    assert steps.left == 97, "two that match, and the first that is older"


class _CountedDisk(SimDisk):
    """Counts the reads of files that are opened for reading."""

    read_count = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        file = super().open(path, create=create, read_only=read_only)
        return cast(DiskFile, _CountedFile(self, file)) if read_only else file


class _CountedFile:
    def __init__(self, disk: _CountedDisk, file: DiskFile) -> None:
        self._disk = disk
        self._file = file
        self.close = file.close

    def read(self, position: int, size: int) -> bytes:
        self._disk.read_count += 1
        return self._file.read(position, size)


@pytest.mark.parametrize(("gap", "reads_max"), [(1, 20), (7, 50), (50, 300), (500, 21)])
def test_entries_that_lie_close_together_take_few_reads(gap: int, reads_max: int) -> None:
    """A chain of 10,000 neighbours would be 10,000 reads; one whose entries lie far apart reads no more than them."""
    disk = _CountedDisk()
    count = 10_000
    ours = create_index_file(disk, PATH, PATH + ".staged", IndexLayout(1_000, count + 2), None)
    hashes = [5 if number % gap == 0 else 6 + number % 900 for number in range(count)]
    ours.put(hashes, list(range(count)), [NOW] * count)
    expected = [number for number in reversed(range(count)) if number % gap == 0]
    assert select(disk, ours, 5, count_max=count) == expected
    assert disk.read_count <= reads_max


def test_a_file_that_was_cut_ends_a_chain(disk: SimDisk) -> None:
    ours = new_file(disk)
    ours.put([5] * 6, list(range(6)), [NOW] * 6)
    disk.open("/index").truncate(LAYOUT.entries_position + 6 * 20 + 10)
    assert select(disk, ours, 5) == []


def test_an_empty_file_has_nothing_and_room_for_all_but_entry_zero(disk: SimDisk) -> None:
    ours = new_file(disk)
    assert select(disk, ours, 5) == []
    assert ours.room == 49


def test_a_full_disk_changes_nothing(disk: SimDisk, put: Put) -> None:
    layout = IndexLayout(slot_count=7, entry_count=100_000)
    ours = create_index_file(disk, "/index", "/staged", layout, None)
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes("/")
    before = b""
    with pytest.raises(DiskFullError):
        while True:
            before = content_of(disk)
            put(ours, [5] * 1_000, [10] * 1_000, [NOW] * 1_000)
    assert content_of(disk) == before
    disk.capacity_bytes *= 2
    ours.put([5], [10], [NOW])


def test_a_file_for_which_there_is_no_space_does_not_appear() -> None:
    disk = SimDisk(capacity_bytes=4096)
    with pytest.raises(DiskFullError):
        create_index_file(disk, "/index", "/staged", IndexLayout(2_000, 100), None)
    assert not disk.exists("/index")
    assert disk.free_bytes("/") == 4096


def test_a_loaded_file_goes_on(tmp_path: object, put: Put) -> None:
    disk = OsDisk()
    path = f"{tmp_path}/index"
    ours = create_index_file(disk, path, path + ".staged", LAYOUT, None)
    put(ours, [5, 6], [10, 20], [NOW, NOW])
    ours.sync()
    ours.close()
    file = disk.open(path, read_only=True)
    header = read_index_header(file)
    file.close()
    assert header == ours.header
    again = IndexFile(path=path, disk=disk, layout=LAYOUT, header=header)
    put(again, [5], [30], [NOW])
    assert select(disk, again, 5) == [30, 10]
    again.close()


def test_a_header_without_count_is_that_of_an_empty_file(disk: SimDisk) -> None:
    file = disk.open("/index", create=True)
    file.write(0, bytes(10))
    assert read_index_header(file) == IndexHeader()


def test_a_failing_disk_is_named(disk: SimDisk) -> None:
    ours = new_file(disk)
    disk.fail_call("sync")
    with pytest.raises(StoreError, match="/index"):
        ours.sync()


def test_periods_match_when_they_touch() -> None:
    header = attrs.evolve(IndexHeader(), begin_timestamp_ms=10, end_timestamp_ms=20)
    matched = [
        period for period in ((0, 9), (0, 10), (12, 15), (20, 30), (21, 30), (0, 99)) if header.is_time_matched(*period)
    ]
    assert matched == [(0, 10), (12, 15), (20, 30), (0, 99)]
