"""The queue offsets of a record, as the record itself states them. Reads no queue and no disk.

A record's CRC does not cover what is read here, and other brokers let clients write it: in batches, in half messages,
and wherever multi-dispatch is off. So the queues that a record names besides its own count only where the store
dispatches to them at all, under names that a message may name, and no queue has more messages than records fit in front
of this one. What is left is a claim that the dispatcher holds against the queue.

Compatibility: ``DefaultMessageStore`` (4.9.8) asks ``enableMultiDispatch`` too, and takes any names.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.properties import (
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
)
from rocketpy.protocol.stored_message import RECORD_HEAD, CheckedMessage
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store import layout
from rocketpy.store.queue.multi_dispatch import QueueKey, name_fault, named_queues

_MULTI_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()
_NAME_SEPARATOR = ","
_OFFSET_DIGITS_MAX = 19


def queue_offsets_of(record: CheckedMessage, *, is_multi_dispatch: bool) -> list[tuple[QueueKey, int]]:
    """Return the queues that a record belongs to, with its offset in each; its own queue first.

    Only with ``is_multi_dispatch`` are there others. As in RocketMQ none of them counts if there are not as many
    offsets as names. A queue that is named twice has the first valid offset.
    """
    if record.sys_flag & NO_QUEUE_FLAG or not layout.names_a_directory(record.topic):
        return []
    offsets_by_queue = {(record.topic, record.queue_id): record.queue_offset}
    if is_multi_dispatch and _MULTI_DISPATCH in record.properties_text:
        names = named_queues(record.properties.get(PROPERTY_INNER_MULTI_DISPATCH, ""))
        offsets = named_queues(record.properties.get(PROPERTY_INNER_MULTI_QUEUE_OFFSET, ""))
        if len(names) != len(offsets):
            names = offsets = []
        offset_max = record.physical_offset // RECORD_HEAD.size
        for name, offset in zip(names, offsets, strict=True):
            if name_fault(name) is not None or not offset.isdecimal() or len(offset) > _OFFSET_DIGITS_MAX:
                continue
            if int(offset) <= offset_max:
                queue_id = 0 if name.startswith(LMQ_PREFIX) else record.queue_id
                offsets_by_queue.setdefault((name, queue_id), int(offset))
    return list(offsets_by_queue.items())


@attrs.define
class NamedUnits:
    """What records of other topics claim in a queue, since the last record of its own topic that is known."""

    begin: int
    """The end of the queue after that record."""
    end: int
    """They have continued the queue up to here."""
    again: int = 0
    """Or they have begun it again, after its topic was deleted, and continued it up to here."""

    @classmethod
    def taken(cls, named: NamedUnits | None, own_end: int, queue_offset: int) -> NamedUnits:
        """Return what is claimed with one more record; ``named`` counts as long as ``own_end`` is the same."""
        if named is None or named.begin != own_end:
            named = cls(own_end, own_end)
        if queue_offset == named.end:
            named.end += 1
        if queue_offset in (0, named.again):
            named.again = queue_offset + 1
        return named


def follows(queue_offset: int, own_end: int, named: NamedUnits | None) -> bool:
    """Whether a record of the queue's own topic may have this queue offset, after one that ended at ``own_end``.

    It is the next one, or 0 because the topic was deleted and created again. Records that name the queue may have come
    before it in either case; which of their claims are true, the record decides.
    """
    if queue_offset in (0, own_end):
        return True
    if named is None or named.begin != own_end:
        return False
    return own_end <= queue_offset <= named.end or 0 <= queue_offset <= named.again


def multi_dispatch_properties(offsets_by_queue: list[tuple[QueueKey, int]]) -> dict[str, str]:
    """Return the properties that say of a record that it is in more queues than its own."""
    if not offsets_by_queue:
        return {}
    return {
        PROPERTY_INNER_MULTI_DISPATCH: _NAME_SEPARATOR.join(topic for (topic, _), _ in offsets_by_queue),
        PROPERTY_INNER_MULTI_QUEUE_OFFSET: _NAME_SEPARATOR.join(str(offset) for _, offset in offsets_by_queue),
    }
