"""What a message may be like, whatever the store looks like at the moment; RocketMQ's checks in RocketMQ's order.

Compatibility: ``DefaultMessageStore.checkMessage`` and ``MessageExtEncoder`` (4.9.8). A topic may have 127 characters
there; here 127 bytes, because its length is stored in one signed byte and a longer one damages the log.
"""

from __future__ import annotations

import attrs

from rocketpy.store import layout
from rocketpy.store.results import PutMessageStatus

_ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


@attrs.frozen
class MessageLimits:
    """The limits of one store."""

    message_size_max: int

    def refusal_of(self, topic: str, queue_id: int, body_size: int, properties: bytes) -> PutMessageStatus | None:
        """Return why a message is refused, None if it is not. ``body_size`` is that of all messages of a batch."""
        if not layout.names_a_directory(topic):
            return _ILLEGAL
        if len(properties) > 3 * layout.PROPERTIES_SIZE_MAX:
            return _ILLEGAL  # no UTF-8 has more bytes than thrice its characters: so much need not be counted
        if len(properties) > layout.PROPERTIES_SIZE_MAX:
            characters = properties.decode("utf-8", "replace").encode("utf-16-le")
            if len(characters) // 2 > layout.PROPERTIES_SIZE_MAX:
                return _ILLEGAL  # RocketMQ counts Java's characters first
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        if body_size > self.message_size_max or queue_id < 0 or b"\0" in properties:
            return _ILLEGAL
        return None
