"""Pieces of queues that tasks read: cut by size, so that a long queue does not keep one task busy alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import attrs

from rocketpy.protocol.message import MessageQueue


@attrs.frozen
class QueueSpan:
    """Messages of one queue from queue offset ``start`` on, before ``end``."""

    queue: MessageQueue
    start: int
    end: int


def cut(spans: Iterable[QueueSpan], *, partitions_min: int = 1, records_max: int | None = None) -> list[QueueSpan]:
    """Return the spans in order, cut into pieces of similar size; empty ones are left out.

    There are at least ``partitions_min`` pieces if there are that many messages, and none has more than
    ``records_max``.
    """
    filled = [span for span in spans if span.start < span.end]
    total = sum(span.end - span.start for span in filled)
    wanted = min(partitions_min, total)
    pieces: list[QueueSpan] = []
    for span in filled:
        size = span.end - span.start
        count = max(1, -(-size * wanted // total))  # each rounded up: never fewer than wanted in all
        if records_max is not None:
            count = max(count, -(-size // records_max))
        count = min(count, size)
        cuts = [span.start + size * number // count for number in range(count + 1)]
        pieces += [QueueSpan(span.queue, start, end) for start, end in pairwise(cuts)]
    return pieces
