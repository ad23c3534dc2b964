"""Admission control for puts: limits of a single message, and reasons for which a store refuses all of them.

Three reasons can hold at a time. One ends only with the store: a write failed, it shuts down, or it is a slave's. One
is set and cleared from outside: the disk is too full by the settings. One is a disk without space, which is tried again
with the first message a second later. A shortage of descriptors is not among them: it refuses the messages whose files
are not open, and no others.

The appender asks; nothing here writes or waits.
"""

from __future__ import annotations

import attrs

from rocketpy.clock import Clock
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.store import layout
from rocketpy.store.index.feed import Index
from rocketpy.store.results import PutMessageStatus

_ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
_ROOM_CHECK_MS = 1000
"""A store without space looks for some at most this often."""


@attrs.frozen
class MessageLimits:
    """The limits of a single message in one store; RocketMQ's checks in RocketMQ's order.

    Compatibility: ``DefaultMessageStore.checkMessage`` and ``MessageExtEncoder`` (4.9.8). RocketMQ allows 127
    characters of topic; here it is 127 bytes, because the length is stored in one signed byte, and a longer topic
    damages the log.
    """

    message_size_max: int

    def refusal_of(self, topic: str, queue_id: int, body_size: int, properties: bytes) -> PutMessageStatus | None:
        """Return why a message is refused, None if it is not. ``body_size`` is that of all messages of a batch."""
        if not layout.names_a_directory(topic):
            return _ILLEGAL
        if len(properties) > 3 * PROPERTIES_SIZE_MAX:
            return _ILLEGAL  # no UTF-8 has more bytes than thrice its characters: so much need not be counted
        if len(properties) > PROPERTIES_SIZE_MAX:
            characters = properties.decode("utf-8", "replace").encode("utf-16-le")
            if len(characters) // 2 > PROPERTIES_SIZE_MAX:
                return _ILLEGAL  # RocketMQ counts Java's characters first
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        if body_size > self.message_size_max or queue_id < 0 or b"\0" in properties:
            return _ILLEGAL
        return None


class PutRefusals:
    """The refusals of one store."""

    def __init__(self, *, limits: MessageLimits, index: Index | None, clock: Clock, why: str | None) -> None:
        self._limits = limits
        self._index = index
        self._timestamp_ms = clock.timestamp_ms
        self._for_good = why  # until the store is opened again
        self._for_a_while: str | None = None  # cleared by refuse_while(None)
        self._no_room: str | None = None  # why there is no space, as of _no_room_since_ms
        self._no_room_since_ms = 0
        self._shortage: str | None = None  # why the last message that needed a descriptor got none
        self.count = 0
        self.is_open = why is None
        """Whether none of the three reasons holds. A plain field, because every burst reads it."""

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
        """Return why a message is refused before room is looked for; None if it is not."""
        if self._for_good is not None or self._for_a_while is not None:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        return self._limits.refusal_of(topic, queue_id, body_size, properties)

    def refused(self, status: PutMessageStatus) -> tuple[PutMessageStatus, int, int]:
        """Count a refusal, and return what is answered for it."""
        self.count += 1
        return status, -1, -1

    def writable_or_why(self) -> str | None:
        """Return None, or why messages are refused; a shortage is checked again with the next message."""
        index_s = self._index.writable_or_why() if self._index is not None else None
        return self._for_good or self._for_a_while or self._no_room or index_s or self._shortage

    def _look_again(self) -> None:
        self.is_open = self._for_good is None and self._for_a_while is None and self._no_room is None
