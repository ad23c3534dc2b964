"""Which queue offsets are lost, and which records are not what they say."""

from __future__ import annotations

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.inspection.verify.log_walk import Damage
from rocketpy.store.inspection.verify.queue_continuity import NeededOffsets, QueueContinuity

SIZE = 1000


def follow(*steps: int | str | tuple[str, int], log_min_offset: int = 0) -> QueueContinuity:
    """Follow queue offsets of T, or of another topic, at multiples of 1000; "damage" is an offset without a record."""
    continuity = QueueContinuity(log_min_offset=log_min_offset)
    for number, step in enumerate(steps):
        place = log_min_offset + number * SIZE
        if step == "damage":
            continuity.see_damage(Damage(place, place + SIZE, "", 0, ""))
            continue
        topic, queue_offset = ("T", step) if isinstance(step, int) else step
        assert isinstance(queue_offset, int)
        record = CheckedMessage(RecordStatus.MESSAGE, SIZE, str(topic), 0, queue_offset, place)
        continuity.see([record])
    return continuity


def test_offsets_that_follow() -> None:
    found = follow(0, 1, ("S", 0), 2, ("S", 1))
    assert (found.needed, found.breaks, found.strays) == ([], [], [])
    assert [found.next_offset((topic, 0)) for topic in "TSX"] == [3, 2, None]
    assert [found.end_offset((topic, 0)) for topic in "TSX"] == [4000, 5000, None]


def test_a_topic_that_was_deleted_begins_at_0_again() -> None:
    assert follow(0, 1, 2, 0, 1).breaks == []


def naming(queue_offset: int, place: int) -> CheckedMessage:
    text = f"INNER_MULTI_DISPATCH\x01T\x02INNER_MULTI_QUEUE_OFFSET\x01{queue_offset}".encode()
    return CheckedMessage(RecordStatus.MESSAGE, SIZE, "N", 0, 0, place, properties_text=text)


def of_t(queue_offset: int, place: int) -> CheckedMessage:
    return CheckedMessage(RecordStatus.MESSAGE, SIZE, "T", 0, queue_offset, place)


def test_records_that_name_a_queue_continue_it_or_begin_it_again() -> None:
    continuity = QueueContinuity(log_min_offset=0)
    continuity.see([naming(0, 0), of_t(1, 1000), naming(2, 2000), of_t(3, 3000), naming(0, 4000), of_t(1, 5000)])
    assert (continuity.breaks, continuity.strays) == ([], [])
    continuity.see([naming(3, 6000), of_t(4, 7000)])
    (found,) = continuity.breaks
    assert (found.expected, found.found) == (2, 4)


def test_what_a_damage_took_is_needed() -> None:
    assert follow(0, 1, "damage", 3).needed == [NeededOffsets("T", 0, 2, 3, 2000, 3000)]
    assert follow("damage", 1, 2).needed == [NeededOffsets("T", 0, 0, 1, 0, 1000)]
    assert follow(0, "damage", 1).needed == []


def test_the_first_offset_of_a_log_that_has_lost_its_beginning_is_unknown() -> None:
    assert follow("damage", 7, log_min_offset=100_000).needed == [NeededOffsets("T", 0, None, 7, 100_000, 101_000)]
    assert follow(7, 8, log_min_offset=100_000).needed == []


def test_a_break_without_damage() -> None:
    (found,) = follow(0, 1, 2, 5, 6).breaks
    assert (found.physical_offset, found.expected, found.found, found.is_alone) == (3000, 3, 5, False)


def test_a_record_after_which_the_queue_continues_is_the_wrong_one() -> None:
    (found,) = follow(0, 1, 2, 3, 4, 6, 6).breaks
    assert (found.physical_offset, found.expected, found.found, found.is_alone) == (5000, 5, 6, True)


def test_a_queue_cannot_have_more_messages_than_fit() -> None:
    (found,) = follow(0, 1, 2, 1 << 40, 3).breaks
    assert (found.physical_offset, found.is_alone) == (3000, True)
    assert follow(0, 1, 2, 1 << 40, 3).next_offset(("T", 0)) == 4


def test_a_first_record_that_should_not_be_one_is_a_stray() -> None:
    assert follow(0, 1, ("U", 2), 3).strays == [(2000, 2)]
