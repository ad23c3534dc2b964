"""Reads of an open store whose units or records were damaged: an answer ends before them, and the next one says why."""

from __future__ import annotations

import pytest

from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.results import GetMessageStatus
from tests.store.parts import Parts, Place

BODIES = [f"{number:03d}".encode() * 10 for number in range(6)]
TARGET = 3


class Everything:
    """A filter that wants everything, by its unit or only by its record."""

    def __init__(self, *, needs_record: bool) -> None:
        self.needs_record = needs_record

    def is_matched_by_consume_queue(self, tags_code: int, ext: object) -> bool:
        return True

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        return True


def two_queues(place: Place) -> tuple[Parts, list[int]]:
    """Messages of a queue, another queue's in between; return where the first queue's are."""
    parts = Parts(place)
    places = []
    for body in BODIES:
        places += parts.put_all([body])
        parts.put_all([b"between"], "Other")
    return parts, places


def damage_unit(place: Place, parts: Parts, physical_offset: int, size: int) -> None:
    path = place.queue_file("TopicTest", 0)
    place.write(path, UNIT.pack(physical_offset, size, 0), TARGET * UNIT_SIZE)


@pytest.mark.parametrize("needs_record", [None, False, True])
@pytest.mark.parametrize(
    "unit",
    ["0 bytes", "negative size", "a little longer", "shorter", "tiny", "elsewhere", "negative", "far away", "between"],
)
def test_what_is_before_is_served_and_the_unit_is_named(place: Place, unit: str, needs_record: bool | None) -> None:
    parts, places = two_queues(place)
    at, size = places[TARGET], places[1] - places[0]
    units = {
        "0 bytes": (at, 0),
        "negative size": (at, -5),
        "a little longer": (at, size + 1),
        "shorter": (at, 90),
        "tiny": (at, 3),
        "elsewhere": (at + 1, size),
        "negative": (-1, size),
        "far away": (1 << 40, size),
        "between": (places[TARGET] - 10, size),
    }
    damage_unit(place, parts, *units[unit])
    message_filter = None if needs_record is None else Everything(needs_record=needs_record)
    first = parts.get(message_filter=message_filter)
    assert (first.status, first.message_count) == (GetMessageStatus.FOUND, TARGET)
    assert (first.next_begin_offset, first.damage) == (TARGET, "")
    second = parts.get(TARGET, message_filter=message_filter)
    assert (second.status, second.body) == (GetMessageStatus.MESSAGE_WAS_REMOVING, b"")
    assert second.next_begin_offset == TARGET
    assert f"unit {TARGET} of topic TopicTest, queue 0" in second.damage
    assert f"{place.queue_file('TopicTest', 0)} at {TARGET * UNIT_SIZE}" in second.damage
    assert parts.get(TARGET + 1, message_filter=message_filter).message_count == len(BODIES) - TARGET - 1


def test_units_of_what_retention_has_removed_are_skipped(place: Place) -> None:
    parts, _ = two_queues(place)
    while parts.commit_log.min_offset == 0:
        parts.put_all([b"x" * 900])
        if len(parts.commit_log.files) > 1:
            parts.commit_log.files.take_first()
    result = parts.get()
    assert (result.status, result.damage) == (GetMessageStatus.FOUND, "")
    assert 0 < result.message_count < result.next_begin_offset == result.max_offset
