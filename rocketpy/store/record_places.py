"""Which queue offsets a record of the log stands for, as the record itself says. Reads no queue and no disk.

A record's CRC does not cover what is read here, and other brokers let clients write it: a name counts only if it can
name a directory, and no queue has more messages than records fit in front of this one.
"""

from __future__ import annotations

from rocketpy.protocol.properties import (
    KEY_SEPARATOR,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
)
from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store import layout

_MULTI_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()
_LMQ_PREFIX = "%LMQ%"
_NAME_SEPARATOR = ","
_OFFSET_DIGITS_MAX = 19

QueueKey = tuple[str, int]
"""Topic and queue id."""


def places_of(record: CheckedMessage) -> list[tuple[QueueKey, int]]:
    """Return the queues that a record belongs to, with its offset in each; its own queue first."""
    if record.sys_flag & layout.SYS_FLAG_NO_QUEUE or not layout.names_a_directory(record.topic):
        return []
    places = [((record.topic, record.queue_id), record.queue_offset)]
    if _MULTI_DISPATCH in record.properties_text:
        names = record.properties.get(PROPERTY_INNER_MULTI_DISPATCH, "").split(_NAME_SEPARATOR)
        offsets = record.properties.get(PROPERTY_INNER_MULTI_QUEUE_OFFSET, "").split(_NAME_SEPARATOR)
        offset_max = record.physical_offset // layout.RECORD_HEAD.size
        for name, offset in zip(names, offsets, strict=False):
            if not layout.names_a_directory(name) or not offset.isdecimal() or len(offset) > _OFFSET_DIGITS_MAX:
                continue
            if int(offset) <= offset_max:
                queue_id = 0 if name.startswith(_LMQ_PREFIX) else record.queue_id
                places.append(((name, queue_id), int(offset)))
    return places


def multi_dispatch_properties(places: list[tuple[QueueKey, int]]) -> dict[str, str]:
    """Return the properties that say of a record that it is in more queues than its own."""
    if not places:
        return {}
    return {
        PROPERTY_INNER_MULTI_DISPATCH: _NAME_SEPARATOR.join(topic for (topic, _), _ in places),
        PROPERTY_INNER_MULTI_QUEUE_OFFSET: _NAME_SEPARATOR.join(str(offset) for _, offset in places),
    }


def index_keys_of(record: CheckedMessage) -> list[str]:
    """Return the keys under which a record is found in the index, as RocketMQ takes them: the unique key first."""
    if record.sys_flag & layout.SYS_FLAG_TRANSACTION_MASK == layout.SYS_FLAG_TRANSACTION_ROLLBACK:
        return []
    unique = record.uniq_key
    keys = [unique] if unique else []
    return keys + [key for key in record.keys.split(KEY_SEPARATOR) if key]
