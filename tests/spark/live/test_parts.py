"""Pieces of queues and tasks made of them: everything once, in order, of similar size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.parts import QueueSpan, cut, share


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


def test_short_queues_share_tasks_equally() -> None:
    tasks = share(spans(*[2] * 1000), tasks=8)
    assert [sum(piece.size for piece in task) for task in tasks] == [250] * 8
    assert share(spans(2, 3), tasks=8) == [(spans(2)[0],), (spans(2, 3)[1],)]
    assert share([], tasks=8) == []


def test_a_long_queue_between_short_ones_has_a_task_of_its_own() -> None:
    pieces = spans(*[2] * 500, 10_000_000, *[2] * 499)
    tasks = share(pieces, tasks=8)
    assert len(tasks) == 8
    assert (pieces[500],) in tasks


def test_tasks_that_would_be_too_large_are_more_tasks() -> None:
    assert [len(task) for task in share(spans(*[4] * 9), tasks=2, records_max=10)] == [2, 2, 2, 2, 1]


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 12), st.integers(1, 60))
def test_tasks_have_each_piece_once_and_keep_the_order(counts: list[int], tasks: int, records_max: int) -> None:
    pieces = spans(*counts)
    shared = share(pieces, tasks=tasks, records_max=records_max)
    numbers = [[piece.queue.queue_id for piece in task] for task in shared]
    assert sorted(number for each in numbers for number in each) == list(range(len(pieces)))
    assert all(each == sorted(each) for each in numbers)
    assert all(len(task) == 1 or sum(piece.size for piece in task) <= records_max for task in shared)
    assert len(shared) >= min(tasks, len(pieces))
    if sum(counts) <= records_max:
        assert len(shared) <= tasks
