"""Bounds of automatic creation: how many entries, and how many bytes, a table of named configurations may reach.

The whole table must fit a response, so both its entries and the bytes of its JSON are counted. Only creation by a
peer's request is bounded; operators, recovery and the broker's own entries are exempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rocketpy.protocol.fastjson import dumps


class AutoCreateBounds:
    """The bytes of one table as JSON, and the bound that it has reached, if any."""

    def __init__(
        self, *, entry_bytes: int, count_max: Callable[[], int], count_key: str, bytes_max: Callable[[], int]
    ) -> None:
        """``entry_bytes`` is the largest size of an entry without its name, which occurs twice. ``count_key`` is the
        setting behind ``count_max``. Both bounds are read each time, because they are live settings.
        """
        self._entry_bytes = entry_bytes
        self._count_max = count_max
        self._count_key = count_key
        self._bytes_max = bytes_max
        self._table_bytes = 0

    def recount(self, names: Iterable[str]) -> None:
        """Count a table from scratch, after it was loaded."""
        self._table_bytes = sum(map(self._bytes_of, names))

    def added(self, name: str) -> None:
        """Count a new entry."""
        self._table_bytes += self._bytes_of(name)

    def removed(self, name: str) -> None:
        """Count out a deleted entry."""
        self._table_bytes -= self._bytes_of(name)

    def full_because(self, count: int) -> str | None:
        """Return the bound that a table of ``count`` entries has reached, for remarks and logs; None with room left."""
        if count >= self._count_max():
            return f"there are {count} already, see {self._count_key}"
        if self._table_bytes >= self._bytes_max():
            return f"there are {count} already, of {self._table_bytes} bytes, see autoCreateTableBytesMax"
        return None

    def _bytes_of(self, name: str) -> int:
        return self._entry_bytes + 2 * len(dumps(name).encode())
