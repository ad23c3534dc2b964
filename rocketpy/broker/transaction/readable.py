"""Decoding of records in the broker's own queues that skips damaged and foreign ones.

Services and the start read these queues, where there is no request to refuse. A single record that cannot be decoded
must neither end them nor hide the records next to it.
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
    """Decode consecutive records; log and skip damaged ones and, with ``topic``, those of other topics.

    The store has checked each record's size against its unit; bodies are returned as stored.
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
