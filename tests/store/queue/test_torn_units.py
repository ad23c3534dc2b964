"""A tags code whose low half is zero is doubted exactly where a sector ends in it or just before it."""

from __future__ import annotations

import pytest

from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.queue.torn_units import first_torn, may_be_torn

SECTOR = 512
HASH = -0x1234_5678  # a plain tags code: negative, so all ones in the high half
WHOLE = UNIT.pack(1 << 40, 100, 0)


def torn_tags_codes(position: int, tags_code: int) -> set[int]:
    """Every tagsCode field that a unit at a place can have when any of its sectors is lost, place and size whole."""
    unit = UNIT.pack(1 << 40, 100, tags_code)
    found = set()
    for border in range(position // SECTOR * SECTOR, position + UNIT_SIZE, SECTOR):
        cut = min(max(0, border - position), UNIT_SIZE)
        torn = unit[:cut] + bytes(UNIT_SIZE - cut)
        physical_offset, size, left = UNIT.unpack(torn)
        if (physical_offset, size) == (1 << 40, 100):
            found.add(left)
    return found


@pytest.mark.parametrize("tags_code", [HASH, 0x0000_0001_0000_0001, 0x7FFF_FFFF, 1_700_000_000_123])
def test_whatever_a_lost_sector_leaves_is_doubted(tags_code: int) -> None:
    """Every place of a unit in five sectors: the model cuts the bytes, the module only computes."""
    doubted = 0
    for position in range(0, 5 * SECTOR, 4):
        for left in torn_tags_codes(position, tags_code) - {tags_code}:
            assert may_be_torn(position, left), (position, left)
            doubted += 1
    assert doubted


def test_a_unit_within_a_sector_is_believed_whatever_it_says() -> None:
    assert [position for position in range(0, SECTOR, UNIT_SIZE) if may_be_torn(position, 0)] == [500]
    assert not may_be_torn(500, HASH), "the low half has arrived, so the sector has"


def test_a_border_just_before_the_field_counts_and_one_just_behind_it_does_not() -> None:
    assert may_be_torn(SECTOR - 12, 0)
    assert not may_be_torn(SECTOR - 11, HASH)
    assert not may_be_torn(SECTOR - UNIT_SIZE, 0)
    assert not may_be_torn(SECTOR - 8, 0), "place and size would be torn: the unit is not valid at all"


@pytest.mark.parametrize("position", range(0, 5 * SECTOR, UNIT_SIZE))
def test_many_units_are_judged_as_each_alone(position: int) -> None:
    for torn in range(30):
        tags_codes = [HASH] * torn + [0] * (30 - torn)
        alone = [number for number in range(30) if may_be_torn(position + number * UNIT_SIZE, tags_codes[number])]
        assert first_torn(position, tags_codes) == (alone[0] if alone else 30)


def test_no_units_are_not_torn() -> None:
    assert first_torn(500, []) == 0
