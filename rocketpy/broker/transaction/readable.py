"""Records of the broker's own queues, without those that say nothing: damaged ones, and foreign ones.

A queue of the broker's own is read by services and at the start, where there is no request to refuse. One record that
cannot be decoded, whatever has damaged it, must neither end them nor hide the records beside it.
"""

from __future__ import annotations

import logging
from struct import Struct

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import Buffer, decode_message

_HEAD = Struct(">i24xq")  # totalSize, physicalOffset

_log = logging.getLogger("rocketpy.broker.transaction")


def readable_messages(records: Buffer, topic: str | None = None) -> list[MessageExt]:
    """Return the messages of records back to back, with ``topic`` those of it only; one line in the log for each other.

    The store has compared the size of each record with that in its unit; bodies are returned as they are stored.
    """
    messages: list[MessageExt] = []
    position = 0
    while position + _HEAD.size <= len(records):
        size, physical_offset = _HEAD.unpack_from(records, position)
        try:
            message = decode_message(records, position, decompress=False)
            if topic is not None and message.topic != topic:
                raise RemoteProtocolError(f"expected a record of {topic}, found one of {message.topic!r}")
            messages.append(message)
        except RemoteProtocolError as failure:
            _log.error("the record at physical offset %d is skipped: %s", physical_offset, failure)
        position += max(size, _HEAD.size)
    return messages
