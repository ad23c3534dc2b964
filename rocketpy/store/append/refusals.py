"""Why a store takes no message: at the moment, for a while, or for good; and how many it has not taken.

Three reasons can hold at a time: one that ends only with the store (a write failed, it shuts down, it is a slave's),
one that somebody declares and takes back (a disk that is too full by the settings), and a disk without space, which is
looked at again with the next message a second later. A shortage of descriptors is none of them: it refuses messages
whose files are not open, and no others. The appender asks; nothing here writes or waits.
"""

from __future__ import annotations

from rocketpy.clock import Clock
from rocketpy.store.append.limits import MessageLimits
from rocketpy.store.index.feed import Index
from rocketpy.store.results import PutMessageStatus

_ROOM_CHECK_MS = 1000
"""A store without space looks for some this often."""


class PutRefusals:
    """The refusals of one store."""

    def __init__(self, *, limits: MessageLimits, index: Index | None, clock: Clock, why: str | None) -> None:
        self._limits = limits
        self._index = index
        self._timestamp_ms = clock.timestamp_ms
        self._for_good = why  # until the store is opened again
        self._for_a_while: str | None = None  # until somebody says that it is over
        self._no_room: str | None = None  # why there is no space, as of _no_room_since_ms
        self._no_room_since_ms = 0
        self._shortage: str | None = None  # why the last message that needed a descriptor got none
        self.count = 0
        self.is_open = why is None
        """Whether none of the three reasons holds; a plain field, because it is asked for with every burst."""

    def refuse_all(self, why: str) -> None:
        """Refuse every message from now on; the first reason stays."""
        self._for_good = self._for_good or why
        self.is_open = False

    def refuse_while(self, why: str | None) -> None:
        """Refuse every message for a reason that will pass; None when it has."""
        self._for_a_while = why
        self._look_again()

    def note_no_room(self, why: str) -> None:
        """The disk has no space for what the next message needs."""
        self._no_room = why
        self.is_open = False
        self._no_room_since_ms = self._timestamp_ms()

    def note_shortage(self, why: str) -> None:
        """There is no descriptor for the files that one message needs."""
        self._shortage = why

    def note_room(self) -> None:
        """The disk has space, and files were opened."""
        self._no_room = self._shortage = None
        self._look_again()

    @property
    def may_find_room(self) -> bool:
        """Whether the disk is worth a try: not right after it was full, whichever way the clock is set."""
        if self._no_room is not None and abs(self._timestamp_ms() - self._no_room_since_ms) < _ROOM_CHECK_MS:
            return False
        return self._index is None or self._index.writable_or_why() is None

    def refusal_of(self, topic: str, queue_id: int, body_size: int, properties: bytes) -> PutMessageStatus | None:
        """Return why a message is refused before anybody looks for room; None if it is not."""
        if self._for_good is not None or self._for_a_while is not None:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        return self._limits.refusal_of(topic, queue_id, body_size, properties)

    def refused(self, status: PutMessageStatus) -> tuple[PutMessageStatus, int, int]:
        """Count a refusal, and return what is answered for it."""
        self.count += 1
        return status, -1, -1

    def writable_or_why(self) -> str | None:
        """Return None, or why messages are refused; a shortage is looked at again with the next message."""
        index_s = self._index.writable_or_why() if self._index is not None else None
        return self._for_good or self._for_a_while or self._no_room or index_s or self._shortage

    def _look_again(self) -> None:
        self.is_open = self._for_good is None and self._for_a_while is None and self._no_room is None
