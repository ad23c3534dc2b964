"""Units of records that are in the log already: for recovery, and for the log of a slave.

Both hold what a record says against the queues by the same rules, so that the log alone decides what is in a queue. A
record of the queue's own topic counts. One of another topic that names the queue is a claim: no checksum covers its
names and offsets, and a client may have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from rocketpy.protocol.properties import decode_properties
from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.protocol.topic_name import LMQ_PREFIX, SCHEDULE_TOPIC
from rocketpy.store import layout
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import BitMapOf

TagsCodeOf: TypeAlias = Callable[[str, Mapping[str, str], int], int]
"""The tags code of a unit, from topic, properties and storeTimestamp. In all topics but SCHEDULE_TOPIC, where it may be
the time of delivery, it is the hash of the tags."""


class RecordUnits:
    """Makes the units of one store's records. ``bit_map_of`` is for stores with ConsumeQueueExt files."""

    def __init__(self, *, tags_code: TagsCodeOf, bit_map_of: BitMapOf | None) -> None:
        self.tags_code = tags_code
        self._bit_map_of = bit_map_of

    def unit(self, queue: ConsumeQueue, record: CheckedMessage) -> bytes:
        """Return the next unit of a queue. With an extension, which only the record's own queue gets, it is collected.

        StoreError is final.
        """
        return layout.UNIT.pack(record.physical_offset, record.size, self.field(queue, record))

    def field(self, queue: ConsumeQueue, record: CheckedMessage) -> int:
        """Return the tagsCode field of the unit."""
        tags_code = self.tags_code(record.topic, record.properties, record.store_timestamp)
        if not queue.writes_ext or (queue.topic, queue.queue_id) != (record.topic, record.queue_id):
            return tags_code
        bit_map = self._bit_map_of(record.topic, record.properties) if self._bit_map_of is not None else None
        return queue.extended_tags_code(tags_code, record.store_timestamp, bit_map)

    def with_delivery_times(
        self, tags_codes: Sequence[int], topics: Sequence[str], texts: Sequence[bytes], timestamps_ms: Sequence[int]
    ) -> list[int]:
        """Return the hashes of the tags of some records, or what is in their place in units of SCHEDULE_TOPIC.

        ``texts`` are their properties, ``timestamps_ms`` their storeTimestamps.
        """
        return [
            tags_code
            if topic != SCHEDULE_TOPIC
            else self.tags_code(topic, decode_properties(text.decode("utf-8", "replace")), timestamp_ms)
            for tags_code, topic, text, timestamp_ms in zip(tags_codes, topics, texts, timestamps_ms, strict=True)
        ]


def may_take(queue: ConsumeQueue, queue_offset: int, *, is_gap_final: bool) -> bool:
    """Whether a record of another topic may have the unit at an offset of a queue that it names.

    It never moves the queue back. Beyond the queue's end it may stand where units before it are missing. Unless
    ``is_gap_final`` those are looked for first, from the beginning of the log. What is still missing then is gone, and
    a queue that has units keeps them; but a light queue has no topic of its own, and goes on with what there is.
    """
    if queue_offset <= queue.next_offset:
        return queue_offset == queue.next_offset
    return not is_gap_final or queue.next_offset == queue.min_offset or queue.topic.startswith(LMQ_PREFIX)
