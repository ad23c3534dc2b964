"""A key chooses the queue that it chooses in Java."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.client.producer.selectors import java_hash_of, queue_by_hash, queue_by_random
from rocketpy.protocol.message import Message, MessageQueue

QUEUES = [MessageQueue("T", "a", number) for number in range(4)]
MESSAGE = Message("T", b"x")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (0, 0),
        (-7, -7),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),  # new Long(2147483648L).hashCode()
        (2**32, 1),
        (-(2**31) - 1, -(2**31)),
        (-(2**63), -(2**31)),
        ("polygenelubricants", -(2**31)),
        ("", 0),
    ],
)
def test_hashes_are_those_of_java(key: str | int, hashed: int) -> None:
    assert java_hash_of(key) == hashed


@pytest.mark.parametrize(
    ("key", "queue_id"), [(5, 1), (-5, 1), (-7, 3), ("polygenelubricants", 0), (2**32, 1), ("a", 97 % 4)]
)
def test_the_queue_is_the_magnitude_of_the_remainder(key: str | int, queue_id: int) -> None:
    assert queue_by_hash(key)(QUEUES, MESSAGE) == QUEUES[queue_id]


def test_a_number_beyond_a_long_is_refused() -> None:
    with pytest.raises(OverflowError):
        queue_by_hash(2**63)


def test_random_takes_every_queue() -> None:
    assert {queue_by_random(Random(3))(QUEUES, MESSAGE) for _ in range(1)} <= set(QUEUES)
    select = queue_by_random(Random(3))
    assert {select(QUEUES, MESSAGE).queue_id for _ in range(60)} == {0, 1, 2, 3}
    assert queue_by_random()(QUEUES, MESSAGE) in QUEUES
