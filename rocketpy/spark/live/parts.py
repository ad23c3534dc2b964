"""Pieces of queues that tasks read.

A long queue is cut, so that it does not keep one task busy alone. Short pieces are put together, because a task of
Spark's costs as much as thousands of messages::

    queues     |-----------------------------|  |--|  |-|  |--|  |-|   ...
    pieces     |---------|---------|---------|  |--|  |-|  |--|  |-|   ...
    tasks           1         2         3       |---- 4 ----|  |---- 5 ...
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from rocketpy.protocol.message import MessageQueue

TASKS_PER_CORE = 4
"""Tasks of a read of many short queues: enough to even out which ones are slow."""
SHARED_TASK_RECORDS = 250_000
"""Most messages of a task that reads several pieces. To start it costs little beside so many, and a cluster with more
cores than the driver's machine gets more tasks where there is more to read."""


@attrs.frozen
class QueueSpan:
    """Messages of one queue from queue offset ``start`` on, before ``end``."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


def cut(spans: Iterable[QueueSpan], *, partitions_min: int = 1, records_max: int | None = None) -> list[QueueSpan]:
    """Return the spans in order, cut into pieces of similar size; empty ones are left out.

    There are at least ``partitions_min`` pieces if there are that many messages, and none has more than
    ``records_max``.
    """
    filled = [span for span in spans if span.start < span.end]
    total = sum(span.size for span in filled)
    wanted = min(partitions_min, total)
    pieces: list[QueueSpan] = []
    for span in filled:
        size = span.size
        count = max(1, -(-size * wanted // total))  # each rounded up: never fewer than wanted in all
        if records_max is not None:
            count = max(count, -(-size // records_max))
        count = min(count, size)
        cuts = [span.start + size * number // count for number in range(count + 1)]
        pieces += [QueueSpan(span.queue, start, end) for start, end in pairwise(cuts)]
    return pieces


def share(
    pieces: Sequence[QueueSpan], *, tasks: int, records_max: int = SHARED_TASK_RECORDS
) -> list[tuple[QueueSpan, ...]]:
    """Return the pieces in groups of similar size, one for each task; the pieces of a group keep their order.

    There are ``tasks`` groups if there are that many pieces, and more only where one of several pieces would have more
    than ``records_max`` messages. Equal pieces are shared equally each time.
    """
    groups: list[list[int]] = [[] for _ in range(tasks)]
    filled = [(0, number) for number in range(tasks)]
    for index in sorted(range(len(pieces)), key=lambda each: pieces[each].size, reverse=True):
        records, number = filled[0]
        if groups[number] and records + pieces[index].size > records_max:  # nor is there room in any other
            groups.append([])
            heapq.heappush(filled, (pieces[index].size, len(groups) - 1))
            groups[-1].append(index)
        else:
            heapq.heapreplace(filled, (records + pieces[index].size, number))
            groups[number].append(index)
    in_order = sorted(sorted(group) for group in groups if group)
    return [tuple(pieces[index] for index in group) for group in in_order]
