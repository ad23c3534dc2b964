"""What a message may be like: RocketMQ's limits, statuses and order of checks."""

from __future__ import annotations

import pytest

from rocketpy.store.append.limits import MessageLimits
from rocketpy.store.results import PutMessageStatus

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
