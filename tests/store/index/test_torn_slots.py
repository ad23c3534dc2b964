"""Slots that a killed burst has changed lead to the newest entry that is counted again."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.kernels import mapped_words
from rocketpy.store.index import torn_slots
from rocketpy.store.index.file import HEADER_SIZE, SLOT_SIZE, IndexFile, IndexLayout, create_index_file
from rocketpy.store.index.torn_slots import highest_word, repair_slots
from rocketpy.testing.sim.disk import SimDisk

LAYOUT = IndexLayout(slot_count=50, entry_count=400)
NOW = 1_700_000_000_000


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def filled(disk: SimDisk, key_count: int) -> IndexFile:
    index_file = create_index_file(disk, "/index", "/index.staged", LAYOUT, None)
    chooser = random.Random(key_count)
    hashes = [chooser.randrange(1 << 31) for _ in range(key_count)]
    for number, key_hash in enumerate(hashes):
        index_file.put([key_hash], [100 * number], [NOW])
    index_file.close()
    return index_file


def slots_of(disk: SimDisk) -> bytes:
    return disk.peek("/")["index"][HEADER_SIZE : LAYOUT.entries_position]


@pytest.mark.parametrize("key_count", [1, 30, 399])
@pytest.mark.parametrize("part", [1 << 16, 7])
@pytest.mark.parametrize("has_kernels", [False, True])
def test_the_slots_are_as_before_the_burst(
    disk: SimDisk, key_count: int, part: int, has_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torn_slots, "ENTRIES_PER_SLICE", part)
    monkeypatch.setattr(torn_slots, "SLOTS_PER_SLICE", part)
    index_file = filled(disk, key_count)
    before = slots_of(disk)
    file = disk.open("/index")
    torn = random.Random(1).sample(range(LAYOUT.slot_count), 20)
    first = index_file.header.index_count
    file.exchange_words([HEADER_SIZE + slot * SLOT_SIZE for slot in torn], range(first, first + len(torn)))
    file.close()
    assert slots_of(disk) != before
    slices = list(repair_slots(index_file, disk, has_kernels=has_kernels))
    assert slots_of(disk) == before
    assert len(slices) > 1
    assert disk.descriptor_count == 0


def test_a_file_without_torn_slots_is_left_alone(disk: SimDisk) -> None:
    index_file = filled(disk, 100)
    changes = disk.change_count
    list(repair_slots(index_file, disk))
    assert disk.change_count == changes


def test_words_that_no_burst_has_written_are_left_alone(disk: SimDisk) -> None:
    """A negative number counts as nothing wherever slots are read."""
    index_file = filled(disk, 10)
    file = disk.open("/index")
    file.write(HEADER_SIZE, b"\xff\xff\xff\xff")
    file.close()
    before = slots_of(disk)
    list(repair_slots(index_file, disk))
    assert slots_of(disk) == before


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_the_kernel_finds_the_highest_word(words: list[int]) -> None:
    """The general path is the definition."""
    content = struct.pack(f">{len(words)}i", *words)
    assert highest_word(content) == max([-1, *words])
    assert mapped_words.highest_word(content) == highest_word(content)
