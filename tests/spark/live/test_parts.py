"""Pieces of queues: everything once, in order, of similar size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.parts import QueueSpan, cut


def spans(*sizes: int) -> list[QueueSpan]:
    return [QueueSpan(MessageQueue("T", "b", number), 10, 10 + size) for number, size in enumerate(sizes)]


def sizes(pieces: list[QueueSpan]) -> list[tuple[int, int]]:
    return [(piece.queue.queue_id, piece.end - piece.start) for piece in pieces]


def test_a_piece_for_each_queue_that_holds_messages() -> None:
    assert cut(spans(5, 0, 7)) == [spans(5)[0], spans(5, 0, 7)[2]]
    assert cut([]) == []


def test_a_long_queue_is_cut_and_a_short_one_is_not() -> None:
    """Equal counts for each queue would make the pieces of the long one a hundred times as long."""
    assert sizes(cut(spans(1000, 10), partitions_min=4)) == [(0, 250), (0, 250), (0, 250), (0, 250), (1, 10)]


def test_no_piece_has_more_than_the_user_allows() -> None:
    assert sizes(cut(spans(10, 3), records_max=4)) == [(0, 3), (0, 3), (0, 4), (1, 3)]


@pytest.mark.parametrize("partitions_min", [1, 2, 11, 12, 100])
def test_there_are_as_many_as_wanted_if_there_are_that_many_messages(partitions_min: int) -> None:
    assert len(cut(spans(5, 0, 7), partitions_min=partitions_min)) >= min(partitions_min, 12)


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(1, 40), st.one_of(st.none(), st.integers(1, 20)))
def test_the_pieces_cover_the_spans_in_order(counts: list[int], partitions_min: int, records_max: int | None) -> None:
    whole = spans(*counts)
    pieces = cut(whole, partitions_min=partitions_min, records_max=records_max)
    assert [(p.queue, offset) for p in pieces for offset in range(p.start, p.end)] == [
        (span.queue, offset) for span in whole for offset in range(span.start, span.end)
    ]
    assert all(piece.start < piece.end for piece in pieces)
    assert len(pieces) >= min(partitions_min, sum(counts))
    if records_max is not None:
        assert all(piece.end - piece.start <= records_max for piece in pieces)
