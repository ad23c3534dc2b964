"""Tag expressions: ``*``, or tags separated by ``||``.

The broker compares hashes (a ConsumeQueue unit holds nothing else), so what passes here may still be another tag with
the same hash; consumers compare the text. Pure: a subscription in, a decision out.
"""

from __future__ import annotations

import struct

from rocketpy.protocol.bodies.heartbeat import SUB_ALL, SubscriptionData
from rocketpy.protocol.java_hash import java_hash

EXPRESSION_SIZE_MAX = 32_768
"""Characters of an expression, as of an SQL92 selector. RocketMQ has no such limit."""

TAGS_MAX = 1_000
"""Tags of an expression. RocketMQ has no such limit."""

_PACKED_MAX = 16
"""Codes that a kernel compares with one after the other."""

_SEPARATOR = "||"
# What Java's String.trim removes.
_TRIMMED = "".join(map(chr, range(0x21)))


def parse_tag_expression(topic: str, expression: str | None, *, sub_version: int = 0) -> SubscriptionData:
    """Return the subscription that ``expression`` means; ``None``, nothing and ``*`` are everything.

    Tags keep the order of the expression, each once. Raises ``ValueError`` when there are only separators, and above
    the two limits before anything is taken apart: a filter is kept for as long as a pull is held.
    Compatibility: ``FilterAPI.buildSubscriptionData`` (4.9.8), which orders tags by hash and has no limits.
    """
    if not expression or expression == SUB_ALL:
        return SubscriptionData(topic, SUB_ALL, sub_version)
    if len(expression) > EXPRESSION_SIZE_MAX:
        raise ValueError(f"expected at most {EXPRESSION_SIZE_MAX} characters of tags, found {len(expression)}")
    count = expression.count(_SEPARATOR) + 1
    if count > TAGS_MAX:
        raise ValueError(f"expected at most {TAGS_MAX} tags in an expression, found {count}")
    parts = expression.split(_SEPARATOR)
    if not any(parts):
        raise ValueError(f"subString split error: expected a tag in {expression!r}")
    tags = list(dict.fromkeys(tag for tag in (part.strip(_TRIMMED) for part in parts) if tag))
    codes = list(dict.fromkeys(map(java_hash, tags)))
    return SubscriptionData(topic, expression, sub_version, tags, codes)


class TagFilter:
    """Decides by tag code whether a group wants a message; fits the store's ``MessageFilter``.

    It keeps the codes and not the subscription, because pulls that are held keep it.

    Compatibility: ``DefaultMessageFilter`` (4.9.8). A subscription without codes that is not ``*`` wants nothing. Java
    compares the low 32 bits of the code, which differ from all 64 only in units that hold no hash (delay queues).
    """

    __slots__ = ("_codes", "_wants_all", "packed_codes")

    needs_record = False

    def __init__(self, subscription: SubscriptionData) -> None:
        self._wants_all = subscription.sub_string == SUB_ALL or subscription.class_filter_mode
        self._codes = codes = frozenset(subscription.code_set)
        self.packed_codes: bytes | None = None
        """The codes as a kernel has them, i64 in big-endian; None for a filter that it does not evaluate."""
        if not self._wants_all and len(codes) <= _PACKED_MAX:
            try:
                self.packed_codes = struct.pack(f">{len(codes)}q", *codes)
            except struct.error:  # a peer's subscription may have any number
                pass

    def __eq__(self, other: object) -> bool:
        """Filters are equal that want the same: a held pull goes on where it was."""
        if not isinstance(other, TagFilter):
            return NotImplemented
        return (self._wants_all, self._codes) == (other._wants_all, other._codes)

    def __hash__(self) -> int:
        return hash((self._wants_all, self._codes))

    def is_matched_by_consume_queue(self, tags_code: int, ext: object | None = None) -> bool:
        """Return whether a unit with this tag code is wanted, whatever else is known of it."""
        return self._wants_all or tags_code in self._codes

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Return whether the record is wanted: the tag code has said all there is to say."""
        return True


def has_tag(subscription: SubscriptionData, tags: str | None) -> bool:
    """Return whether a consumer wants a message with these tags: the comparison of the text that a client makes."""
    return not subscription.tags_set or subscription.class_filter_mode or tags in subscription.tags_set
