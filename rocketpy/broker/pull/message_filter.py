"""What decides about each message of a pull that selects by SQL92, or that reads a retry topic.

A message is first judged by its unit: by the bit map that says which filters it passed when it was stored, if there is
one that can be trusted. What may be wanted is then judged by the properties in its record.

Compatibility: ``ExpressionMessageFilter`` and ``ExpressionForRetryMessageFilter`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from rocketpy.protocol.properties import PROPERTY_RETRY_TOPIC
from rocketpy.protocol.stored_message import decode_record_properties
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.results import MessageFilter

if TYPE_CHECKING:  # it takes milliseconds to import, and most brokers start without a filter
    from rocketpy.protocol.selector.sql92 import Sql92Selector

SelectorOf = Callable[[str, str], "Sql92Selector | None"]
"""The selector of a topic and a group, None when the group wants every message of the topic."""


@attrs.frozen(slots=True)
class Sql92MessageFilter:
    """Selects by SQL92. ``bits`` are the filter's bits in maps of ``bit_map_size`` bytes, 0 when it has none.

    Messages not younger than ``born_timestamp_ms`` may have been stored before the filter was there.
    """

    selector: Sql92Selector
    bits: int = 0
    bit_map_size: int = 0
    born_timestamp_ms: int = 0
    needs_record: bool = attrs.field(default=True, init=False)

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Return whether a message may be wanted: unless its bit map lacks a bit of this filter."""
        if (
            ext is None
            or not self.bits
            or len(ext.bit_map) != self.bit_map_size
            or ext.store_timestamp_ms <= self.born_timestamp_ms
        ):
            return True
        return int.from_bytes(ext.bit_map, "little") & self.bits == self.bits

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Return whether the expression is TRUE for the record's properties."""
        return self.selector.matches(decode_record_properties(record))


@attrs.frozen(slots=True)
class RetryMessageFilter:
    """Selects from a group's retry topic: a message comes back only if the group still wants it in its own topic.

    ``subscribed`` is what the group asks of the retry topic itself, None for everything; ``selector_of(topic, group)``
    is what it asks of another topic.
    """

    subscribed: MessageFilter | None
    group: str
    selector_of: SelectorOf
    needs_record: bool = attrs.field(default=True, init=False)

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Return what the filter of the retry topic says."""
        return self.subscribed is None or self.subscribed.is_matched_by_consume_queue(tags_code, ext)

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Return whether the filter of the topic that the message was first sent to wants it."""
        properties = decode_record_properties(record)
        topic = properties.get(PROPERTY_RETRY_TOPIC)
        selector = None if topic is None else self.selector_of(topic, self.group)
        return selector is None or selector.matches(properties)
