"""Table of open transactions: neither committed, rolled back nor given up.

It maps a transaction's origin (the half queue offset of its first record) to the half queue offset of its latest
record. A transaction is open exactly if it is in the table; ending it removes it, so a second end, by any of its
copies, is detected. The table is derived from the half and op queues, and :mod:`.replay` rebuilds it from them.

Rule: entries are in ascending order of the latest records, so a check round begins with the first one. Half records
past ``known_end`` are new transactions: :meth:`OpenTransactions.catch_up` adds them, and a caller that appends a copy
catches up first. Only a check round may depart from the order, and restores it before it ends: it moves skipped entries
to the back while it visits the others.

Memory: about 140 bytes for each open transaction, none for one that has ended. There are :data:`OPEN_MAX` at most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import trio

OPEN_MAX = 1_000_000
"""Open transactions above which no half message is taken: each is in this table, and checked in each round."""


class OpenTransactions:
    """The open transactions of one broker. Not valid before :meth:`load`."""

    def __init__(self) -> None:
        self._newest: OrderedDict[int, int] = OrderedDict()
        self._known_end = 0  # half messages from this queue offset on are not in the table yet
        self._loaded = trio.Event()

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def is_loaded(self) -> bool:
        """Whether the transactions left open by earlier runs are loaded."""
        return self._loaded.is_set()

    @property
    def known_end(self) -> int:
        """The half queue offset up to which all records are in the table."""
        return self._known_end

    async def wait_loaded(self) -> None:
        """Wait until the table is loaded."""
        await self._loaded.wait()

    def load(self, newest_by_origin: Mapping[int, int], known_end: int) -> None:
        """Add the transactions left open, in ascending order of their latest records; called once."""
        assert not self.is_loaded, "the table is loaded once"
        self._newest.update(newest_by_origin)
        self._known_end = known_end
        self._loaded.set()

    def catch_up(self, max_offset: int) -> None:
        """Add each half record from ``known_end`` up to ``max_offset``, the end of the queue, as a new transaction."""
        for queue_offset in range(self._known_end, max_offset):
            self._newest[queue_offset] = queue_offset
        self._known_end = max(self._known_end, max_offset)

    def has_room(self, max_offset: int) -> bool:
        """Whether one more may begin, after those up to ``max_offset``, the end of the half queue."""
        # Those past known_end are open: an end of one of them would have caught up.
        return not self.is_loaded or len(self._newest) + max_offset - self._known_end < OPEN_MAX

    def newest(self, origin: int) -> int | None:
        """Return the half queue offset of a transaction's latest record, None when it is not open."""
        return self._newest.get(origin)

    def first(self) -> tuple[int, int] | None:
        """Return origin and latest record of the first transaction, the one with the oldest latest record."""
        return next(iter(self._newest.items()), None)

    def skip(self, origin: int) -> None:
        """Move a transaction to the back, until :meth:`restore` is called."""
        self._newest.move_to_end(origin)

    def restore(self, skipped: Mapping[int, int]) -> None:
        """Move skipped transactions back to the front, given in order with the latest record of each.

        Transactions that have ended or got a newer record since are left alone.
        """
        for origin, queue_offset in reversed(list(skipped.items())):
            if self._newest.get(origin) == queue_offset:
                self._newest.move_to_end(origin, last=False)

    def renewed(self, origin: int, queue_offset: int) -> None:
        """Record that a copy, at the end of the half queue, is a transaction's latest record now."""
        assert queue_offset == self._known_end, (queue_offset, self._known_end)
        self._newest[origin] = queue_offset
        self._newest.move_to_end(origin)
        self._known_end = queue_offset + 1

    def ended(self, origin: int) -> None:
        """Remove a transaction that was committed, rolled back or given up."""
        del self._newest[origin]
