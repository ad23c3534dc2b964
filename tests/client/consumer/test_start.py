"""Where reading begins."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.start import Start, offset_of_start, offset_without_progress
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
RETRY = MessageQueue("%RETRY%g", "b", 0)


class Offsets:
    """A queue from 10 to 50; the message nearest to any time is 30."""

    def __init__(self, stored: int | None = None) -> None:
        self.stored = stored

    async def min_offset(self, queue: MessageQueue) -> int:
        return 10

    async def max_offset(self, queue: MessageQueue) -> int:
        return 50

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        assert timestamp_ms == 1233, "of several of one time Java's broker finds any"
        return 30

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        return self.stored


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start.beginning(), 10),
        (Start.end(), 50),
        (Start.at_time(1234), 30),
        (Start.last(5), 45),
        (Start.last(500), 10),
        (Start.last(0), 50),
        (Start.at_offset(17), 17),
        (Start.stored(), 10),
        (Start.stored(Start.end()), 50),
    ],
)
async def test_a_start_without_progress(start: Start, expected: int) -> None:
    assert await offset_of_start(start, QUEUE, Offsets()) == expected


async def test_stored_progress_counts_even_if_it_is_zero() -> None:
    assert await offset_of_start(Start.stored(Start.end()), QUEUE, Offsets(0)) == 0
    assert await offset_of_start(Start.beginning(), QUEUE, Offsets(40)) == 10


@pytest.mark.parametrize("make", [Start.at_time, Start.last, Start.at_offset])
def test_negative_numbers_are_refused(make: type[Start]) -> None:
    with pytest.raises(ValueError, match="found -1"):
        make(-1)


@pytest.mark.parametrize(
    ("policy", "normal", "retry"),
    [
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, 50, 0),
        (ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET, 50, 0),
        (ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET, 50, 0),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST, 50, 0),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 0, 0),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 30, 50),
    ],
)
async def test_a_group_begins_where_its_policy_says(policy: ConsumeFromWhere, normal: int, retry: int) -> None:
    assert await offset_without_progress(QUEUE, Offsets(), policy, 1234) == normal
    assert await offset_without_progress(RETRY, Offsets(), policy, 1234) == retry


@pytest.mark.parametrize(
    ("short", "start"),
    [
        ("beginning", Start.beginning()),
        ("end", Start.end()),
        ("stored", Start.stored()),
        (1234, Start.at_time(1234)),
        ("1234", Start.at_time(1234)),
        (-3, Start.last(3)),
        ("-3", Start.last(3)),
        (Start.at_offset(4), Start.at_offset(4)),
    ],
)
def test_a_start_has_a_short_form(short: Start | str | int, start: Start) -> None:
    assert Start.of(short) == start


@pytest.mark.parametrize("text", ["", "middle", "1.5", "-"])
def test_any_other_text_is_no_start(text: str) -> None:
    with pytest.raises(ValueError, match="expected 'beginning', 'end', 'stored'"):
        Start.of(text)
