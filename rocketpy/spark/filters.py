"""Which messages a read wants, as a value, and the translation of Spark's filters into it.

Rule: a filter never drops a message that Spark would keep. Whatever is not certain to mean the same here stays with
Spark.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Range:
    """Whole numbers from ``start`` to before ``end``; None is no bound."""

    start: int | None = None
    end: int | None = None

    def holds(self, number: int) -> bool:
        """Return whether a number is in the range."""
        return (self.start is None or number >= self.start) and (self.end is None or number < self.end)

    def intersect(self, other: Range) -> Range:
        """Return the numbers that are in both."""
        starts = [each for each in (self.start, other.start) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Range(max(starts, default=None), min(ends, default=None))

    @property
    def is_empty(self) -> bool:
        """Whether no number is in it."""
        return self.start is not None and self.end is not None and self.start >= self.end


ALL = Range()


@attrs.frozen(kw_only=True)
class MessageFilter:
    """Conditions that a wanted message meets, all of them. None, or the range ``ALL``, is no condition.

    An empty set wants nothing. A timestamp that the calendar does not have (a null in its column) is in no range but
    ``ALL``. ``keys`` are index keys: a message is wanted that has one of them, as its UNIQ_KEY or as a part of KEYS.
    """

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    store_timestamps_ms: Range = ALL
    born_timestamps_ms: Range = ALL
    queue_offsets: Range = ALL
    physical_offsets: Range = ALL
    tags: frozenset[str] | None = None
    keys: frozenset[str] | None = None


EVERYTHING = MessageFilter()
