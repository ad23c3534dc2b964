"""Sums over the queue offsets of a queue, from which follows whether each offset of a range is there exactly once.

Count, sum, sum of squares and exclusive or need no shuffle of messages: Spark has them for each file while it counts
the rows. An offset that comes twice and one that is missing cancel each other in the count, but hardly in all four.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class OffsetSum:
    """Sums over some offsets of one queue, from ``first`` to ``last``."""

    rows: int
    first: int
    last: int
    sum: int
    squares: int
    xor: int

    def plus(self, other: OffsetSum) -> OffsetSum:
        """Return the sums over these offsets and others of the same queue."""
        return OffsetSum(
            self.rows + other.rows,
            min(self.first, other.first),
            max(self.last, other.last),
            self.sum + other.sum,
            self.squares + other.squares,
            self.xor ^ other.xor,
        )

    @property
    def is_unbroken(self) -> bool:
        """Whether each offset from the first to the last is there, once."""
        count = self.last + 1 - self.first
        return (
            self.rows == count
            and self.sum == (self.first + self.last) * count // 2
            and self.squares == _squares_to(self.last) - _squares_to(self.first - 1)
            and self.xor == _xor_to(self.last) ^ _xor_to(self.first - 1)
        )


def _squares_to(last: int) -> int:
    """Return the sum of the squares of all numbers from 0 to ``last``, which may be -1."""
    return last * (last + 1) * (2 * last + 1) // 6


def _xor_to(last: int) -> int:
    """Return the exclusive or of all numbers from 0 to ``last``, which may be -1."""
    return (last, 1, last + 1, 0)[last % 4]
