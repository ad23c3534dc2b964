"""The transactions of which nobody knows yet whether they are to be delivered.

One table: a transaction's origin (the half queue offset of its first record) and its newest record's offset. A
transaction is open exactly if it is here, so ending one twice, by whichever of its copies, is found out; who ends it
takes it out. What the table was told is in the half and op queues too, and :mod:`.replay` reads it back from there.

Rule: offsets are in ascending order of the newest records, so the first entry is where a check round begins. Records of
the half queue that nobody has told the table of are new transactions: :meth:`OpenTransactions.catch_up` takes them, and
whoever appends a copy catches up before it names the copy. Only a check round may depart from the order, and restores
it before it ends: what it passes over goes behind the others for as long as it takes to look at those.

Memory: about 140 bytes for each open transaction, none for one that has ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import trio


class OpenTransactions:
    """The open transactions of one broker. Empty and not to be asked before :meth:`load`."""

    def __init__(self) -> None:
        self._newest: OrderedDict[int, int] = OrderedDict()
        self._known_end = 0  # half messages from here on have not been looked at
        self._loaded = trio.Event()

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def is_loaded(self) -> bool:
        """Whether the table knows what earlier runs of the broker have left open."""
        return self._loaded.is_set()

    @property
    def known_end(self) -> int:
        """The half queue offset up to which every record has been taken into account."""
        return self._known_end

    async def wait_loaded(self) -> None:
        """Wait until the table may be asked."""
        await self._loaded.wait()

    def load(self, newest_by_origin: Mapping[int, int], known_end: int) -> None:
        """Take what was left open, in ascending order of the newest records; called once."""
        assert not self.is_loaded, "the table is loaded once"
        self._newest.update(newest_by_origin)
        self._known_end = known_end
        self._loaded.set()

    def catch_up(self, max_offset: int) -> None:
        """Take the new records of the half queue, which ends at ``max_offset``: transactions of their own."""
        for queue_offset in range(self._known_end, max_offset):
            self._newest[queue_offset] = queue_offset
        self._known_end = max(self._known_end, max_offset)

    def newest(self, origin: int) -> int | None:
        """Return the half queue offset of a transaction's newest record, None when it is not open."""
        return self._newest.get(origin)

    def first(self) -> tuple[int, int] | None:
        """Return origin and newest record of the transaction whose newest record is the oldest."""
        return next(iter(self._newest.items()), None)

    def pass_over(self, origin: int) -> None:
        """Let the next transaction be the first, until :meth:`restore` is called."""
        self._newest.move_to_end(origin)

    def restore(self, passed_over: Mapping[int, int]) -> None:
        """Put transactions back in front that were passed over, given in their order with the newest record of each.

        One that has ended since, or of which there is a newer record now, is not touched.
        """
        for origin, queue_offset in reversed(list(passed_over.items())):
            if self._newest.get(origin) == queue_offset:
                self._newest.move_to_end(origin, last=False)

    def renewed(self, origin: int, queue_offset: int) -> None:
        """A copy has become a transaction's newest record, and the last one of the half queue."""
        assert queue_offset == self._known_end, (queue_offset, self._known_end)
        self._newest[origin] = queue_offset
        self._newest.move_to_end(origin)
        self._known_end = queue_offset + 1

    def ended(self, origin: int) -> None:
        """Forget a transaction that was committed, rolled back or given up."""
        del self._newest[origin]
