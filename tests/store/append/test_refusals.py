"""Three reasons not to take a message: each holds by itself, and what is over is over."""

from __future__ import annotations

import pytest

from rocketpy.clock import ManualClock
from rocketpy.store.append.refusals import MessageLimits, PutRefusals
from rocketpy.store.results import PutMessageStatus

PLAIN = ("T", 0, 10, b"")


def make_refusals(clock: ManualClock | None = None, why: str | None = None) -> PutRefusals:
    return PutRefusals(limits=MessageLimits(100), index=None, clock=clock or ManualClock(), why=why)


def test_without_a_reason_only_the_message_counts() -> None:
    refusals = make_refusals()
    assert refusals.is_open
    assert refusals.writable_or_why() is None
    assert refusals.refusal_of(*PLAIN) is None
    assert refusals.refusal_of("T", 0, 101, b"") is PutMessageStatus.MESSAGE_ILLEGAL


def test_the_first_reason_for_good_stays() -> None:
    refusals = make_refusals()
    refusals.refuse_all("a write failed")
    refusals.refuse_all("shutting down")
    refusals.refuse_while(None)
    refusals.note_room()
    assert not refusals.is_open
    assert refusals.writable_or_why() == "a write failed"
    assert refusals.refusal_of(*PLAIN) is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert not make_refusals(why="a slave").is_open


def test_a_reason_that_is_taken_back_leaves_the_others() -> None:
    refusals = make_refusals()
    refusals.refuse_while("too full")
    refusals.note_no_room("no space")
    assert refusals.writable_or_why() == "too full"
    assert refusals.refusal_of(*PLAIN) is PutMessageStatus.SERVICE_NOT_AVAILABLE
    refusals.refuse_while(None)
    assert refusals.writable_or_why() == "no space"
    assert not refusals.is_open
    assert refusals.refusal_of(*PLAIN) is None, "put itself looks for room"
    refusals.note_room()
    assert refusals.is_open


def test_a_full_disk_is_looked_at_again_after_a_second_whichever_way_the_clock_is_set() -> None:
    clock = ManualClock()
    refusals = make_refusals(clock)
    assert refusals.may_find_room
    refusals.note_no_room("no space")
    assert not refusals.may_find_room
    clock.advance_ms(999)
    assert not refusals.may_find_room
    clock.advance_ms(1)
    assert refusals.may_find_room
    clock.advance_ms(-3_600_000)
    assert refusals.may_find_room


def test_refusals_are_counted() -> None:
    refusals = make_refusals()
    assert refusals.refused(PutMessageStatus.MESSAGE_ILLEGAL) == (PutMessageStatus.MESSAGE_ILLEGAL, -1, -1)
    assert refusals.count == 1


ILLEGAL, TOO_LONG = PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


@pytest.mark.parametrize(
    ("topic", "queue_id", "body_size", "properties", "expected"),
    [
        ("T", 0, 1000, b"", None),
        ("T", 0, 1001, b"", ILLEGAL),
        ("T", -1, 0, b"", ILLEGAL),
        ("t" * 127, 0, 0, b"", None),
        ("t" * 128, 0, 0, b"", ILLEGAL),
        ("ü" * 64, 0, 0, b"", ILLEGAL),
        ("", 0, 0, b"", ILLEGAL),
        ("../a", 0, 0, b"", ILLEGAL),
        ("T", 0, 0, b"p" * 32_767, None),
        ("T", 0, 0, b"p" * 32_768, ILLEGAL),
        ("T", 0, 0, b"p\0", ILLEGAL),
        ("T", 0, 0, "ü".encode() * 16_384, TOO_LONG),
        ("T", 0, 0, "😀".encode() * 16_383, TOO_LONG),
        ("T", 0, 0, "😀".encode() * 16_384, ILLEGAL),  # 32,768 of Java's characters
        ("T", 0, 0, "€".encode() * 32_767, TOO_LONG),
        ("T", 0, 0, "€".encode() * 32_768, ILLEGAL),
        ("T", 0, 0, b"\xff" * 32_768, ILLEGAL),
        ("T", 0, 1001, "ü".encode() * 16_384, TOO_LONG),
        ("", 0, 0, "ü".encode() * 16_384, ILLEGAL),
    ],
)
def test_limits(
    topic: str, queue_id: int, body_size: int, properties: bytes, expected: PutMessageStatus | None
) -> None:
    assert MessageLimits(1000).refusal_of(topic, queue_id, body_size, properties) is expected
