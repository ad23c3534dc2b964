"""Message filters of pulls that select by SQL92, or that read a retry topic.

A message is matched by its ConsumeQueue unit first, if that has a bit map that can be trusted: it records which filters
the message passed when it was stored. Candidates are then matched by the properties in their records.

Compatibility: ``ExpressionMessageFilter`` and ``ExpressionForRetryMessageFilter`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from rocketpy import BUILD
from rocketpy.protocol.properties import PROPERTY_RETRY_TOPIC
from rocketpy.protocol.stored_message import decode_record_properties
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.results import MessageFilter

if TYPE_CHECKING:  # the import takes milliseconds, and most brokers start without a filter
    from rocketpy.protocol.selector.sql92 import Judge, Sql92Selector
    from rocketpy.protocol.selector.sql92_tree import Node

SelectorOf = Callable[[str, str], "Sql92Selector | None"]
"""Return the selector for a topic and a group, None when the group consumes every message of the topic."""


@attrs.frozen(slots=True)
class Sql92MessageFilter:
    """SQL92 filter. ``bits`` are its bits in maps of ``bit_map_size`` bytes, 0 when it has none.

    Bit maps of messages stored up to ``born_timestamp_ms`` are ignored: they may have been built without this filter.
    """

    selector: Sql92Selector
    bits: int = 0
    bit_map_size: int = 0
    born_timestamp_ms: int = 0
    needs_record: bool = attrs.field(default=True, init=False)

    @property
    def judge(self) -> Judge | None:
        """The kernel that decides for many records at once, if it is compiled and has what the expression says."""
        return self.selector.judge(_kernel_judge) if BUILD.has_kernels else None

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Return False if the bit map lacks a bit of this filter; True means that the record decides."""
        if (
            ext is None
            or not self.bits
            or len(ext.bit_map) != self.bit_map_size
            or ext.store_timestamp_ms <= self.born_timestamp_ms
        ):
            return True
        return int.from_bytes(ext.bit_map, "little") & self.bits == self.bits

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Return whether the expression evaluates to TRUE for the record's properties."""
        return self.selector.matches(decode_record_properties(record))


@attrs.frozen(slots=True)
class RetryMessageFilter:
    """Filter of a group's retry topic: redelivers a message only if the group's filter of the original topic matches.

    ``subscribed`` is the group's filter of the retry topic itself, None for every message;
    ``selector_of(topic, group)`` returns its selector of another topic.
    """

    subscribed: MessageFilter | None
    group: str
    selector_of: SelectorOf
    needs_record: bool = attrs.field(default=True, init=False)

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Apply the filter of the retry topic."""
        return self.subscribed is None or self.subscribed.is_matched_by_consume_queue(tags_code, ext)

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Apply the filter of the topic to which the message was first sent."""
        properties = decode_record_properties(record)
        topic = properties.get(PROPERTY_RETRY_TOPIC)
        selector = None if topic is None else self.selector_of(topic, self.group)
        return selector is None or selector.matches(properties)


def _kernel_judge(root: Node) -> Judge | None:
    from rocketpy.protocol.selector.sql92_kernel import kernel_judge  # slow as well, and done once for a selector

    return kernel_judge(root)
