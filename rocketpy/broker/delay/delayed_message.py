"""Conversion of a record in SCHEDULE_TOPIC_XXXX into the message to deliver.

The stored properties are kept: DELAY, REAL_TOPIC and REAL_QID have no meaning outside of SCHEDULE_TOPIC_XXXX. Body,
flag, born time and host and the number of retries are the original message's too.

Compatibility: ``ScheduleMessageService.messageTimeup`` (4.9.8). The checksum of the body is verified first, so that a
damaged body does not get a new, valid checksum; Java delivers it.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import (
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    encode_properties,
    index_keys,
)
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

_NEVER_DELIVERED_TO = frozenset((TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, SCHEDULE_TOPIC))
_SHOWN_MAX = 127
_QUEUE_ID_MAX = (1 << 31) - 1


@attrs.frozen
class DelayedMessage:
    """A message for its own queue, or for the dead letters when ``fault`` says why it has none."""

    topic: str
    queue_id: int
    body: bytes
    stored_properties: bytes
    tags_code: int
    keys: Sequence[bytes]
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    reconsume_times: int
    fault: str | None = None


def read_delayed_message(record: bytes | None) -> DelayedMessage | str:
    """Return the message to deliver from a record in SCHEDULE_TOPIC_XXXX, or why the record is unreadable."""
    if record is None:
        return "its record is not in the log any more"
    try:
        message = decode_message(record, decompress=False, check_crc=True)
    except RemoteProtocolError as failure:
        return str(failure)
    properties = message.properties
    topic, queue = properties.get(PROPERTY_REAL_TOPIC, ""), properties.get(PROPERTY_REAL_QUEUE_ID, "")
    fault = _fault_of_target(topic, queue)
    # Offsets of this record in named queues; they must not be taken for those of the copy.
    properties.pop(PROPERTY_INNER_MULTI_QUEUE_OFFSET, None)
    return DelayedMessage(
        topic,
        0 if fault else int(queue),
        message.body,
        encode_properties(properties).encode("utf-8", "replace"),
        tags_code(properties.get(PROPERTY_TAGS)),
        index_keys(properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX), properties.get(PROPERTY_KEYS)),
        message.flag,
        message.sys_flag,
        message.born_timestamp,
        encode_host(message.born_host),
        message.reconsume_times,
        fault,
    )


def _fault_of_target(topic: str, queue: str) -> str | None:
    if not topic or topic in _NEVER_DELIVERED_TO:
        return f"{PROPERTY_REAL_TOPIC} is {topic[:_SHOWN_MAX]!r}, expected the topic that it was sent to"
    if not queue.isascii() or not queue.isdecimal() or len(queue) > 10 or int(queue) > _QUEUE_ID_MAX:
        return f"{PROPERTY_REAL_QUEUE_ID} is {queue[:_SHOWN_MAX]!r}, expected the number of a queue"
    return None
