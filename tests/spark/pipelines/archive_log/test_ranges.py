"""Ranges of queue offsets: joined without loss, and what lies between them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, gaps, joined

RANGES = st.lists(
    st.builds(
        lambda queue_id, start, size: OffsetRange("T", "b", queue_id, start, start + size),
        st.integers(0, 1),
        st.integers(0, 20),
        st.integers(1, 5),
    )
)


def offsets(ranges: tuple[OffsetRange, ...] | list[OffsetRange]) -> set[tuple[int, int]]:
    return {(each.queue_id, offset) for each in ranges for offset in range(each.start, each.end)}


@given(RANGES)
def test_joined_ranges_have_the_same_messages_and_do_not_touch(ranges: list[OffsetRange]) -> None:
    found = joined(ranges)
    assert offsets(found) == offsets(ranges)
    assert sum(each.message_count for each in found) == len(offsets(ranges))
    assert all(one.queue_id != other.queue_id or one.end < other.start for one, other in pairwise(found))


@given(RANGES)
def test_gaps_complete_each_queue_from_its_first_to_its_last_offset(ranges: list[OffsetRange]) -> None:
    held, between = offsets(ranges), offsets(gaps(ranges))
    assert not held & between
    for queue_id in {queue_id for queue_id, _ in held}:
        mine = [offset for queue, offset in held if queue == queue_id]
        assert {(queue_id, offset) for offset in range(min(mine), max(mine) + 1)} <= held | between
        assert len([1 for queue, _ in held | between if queue == queue_id]) == max(mine) + 1 - min(mine)


def test_queues_of_other_topics_and_brokers_stay_apart() -> None:
    ranges = [OffsetRange("T", "b", 0, 5, 9), OffsetRange("T", "a", 0, 0, 5), OffsetRange("U", "b", 0, 9, 12)]
    assert joined(ranges) == tuple(sorted(ranges))
    assert gaps(ranges) == ()


@pytest.mark.parametrize("end", [3, 2])
def test_a_range_without_a_message_is_refused(end: int) -> None:
    with pytest.raises(ValueError, match="ends after its start 3"):
        OffsetRange("T", "b", 0, 3, end)
