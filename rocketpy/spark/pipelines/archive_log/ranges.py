"""Ranges of queue offsets, ``[start, end)``: which messages of which queue an archive has.

A message is named by topic, broker, queue and queue offset. The name is the same in a live cluster, on the disk of a
dead broker and on that of its slave, so ranges from all of them can be compared and joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import attrgetter

import attrs

_QUEUE = attrgetter("topic", "broker_name", "queue_id")


@attrs.frozen(order=True)
class OffsetRange:
    """Messages of one queue from the queue offset ``start`` on and before ``end``, all of them."""

    topic: str
    broker_name: str
    queue_id: int
    start: int
    end: int = attrs.field()

    @end.validator
    def _check_end(self, _: object, end: int) -> None:
        if end <= self.start:
            raise ValueError(f"expected a range that ends after its start {self.start}, found {end}")

    @property
    def message_count(self) -> int:
        """Return how many messages it has."""
        return self.end - self.start


def joined(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return the same messages in as few ranges as possible, by queue and offset."""
    return tuple(each for _, of_queue in groupby(sorted(ranges), key=_QUEUE) for each in _joined(of_queue))


def gaps(held: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return the gaps: ranges between the first and the last offset of a queue that none of the ranges has."""
    found = []
    for _, of_queue in groupby(joined(held), key=_QUEUE):
        ranges = list(of_queue)
        for before, after in pairwise(ranges):
            found.append(attrs.evolve(before, start=before.end, end=after.start))
    return tuple(found)


def _joined(ranges: Iterator[OffsetRange]) -> Iterator[OffsetRange]:
    """Join the ranges of one queue, sorted by their start."""
    current = next(ranges)
    for each in ranges:
        if each.start > current.end:
            yield current
            current = each
        elif each.end > current.end:
            current = attrs.evolve(current, end=each.end)
    yield current
