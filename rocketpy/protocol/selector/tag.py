"""Tag expressions: ``*``, or tags separated by ``||``.

The broker compares hashes (a ConsumeQueue unit holds nothing else), so what passes here may still be another tag with
the same hash; consumers compare the text. Pure: a subscription in, a decision out.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.bodies.heartbeat import SUB_ALL, SubscriptionData
from rocketpy.protocol.java_hash import java_hash

_SEPARATOR = "||"
# What Java's String.trim removes.
_TRIMMED = "".join(map(chr, range(0x21)))


def parse_tag_expression(topic: str, expression: str | None, *, sub_version: int = 0) -> SubscriptionData:
    """Return the subscription that ``expression`` means; ``None``, nothing and ``*`` are everything.

    Tags keep the order of the expression, each once. Raises ``ValueError`` when there are only separators.
    Compatibility: ``FilterAPI.buildSubscriptionData`` (4.9.8), which orders tags by hash.
    """
    if not expression or expression == SUB_ALL:
        return SubscriptionData(topic, SUB_ALL, sub_version)
    parts = expression.split(_SEPARATOR)
    if not any(parts):
        raise ValueError(f"subString split error: expected a tag in {expression!r}")
    tags = list(dict.fromkeys(tag for tag in (part.strip(_TRIMMED) for part in parts) if tag))
    codes = list(dict.fromkeys(map(java_hash, tags)))
    return SubscriptionData(topic, expression, sub_version, tags, codes)


@attrs.frozen
class TagFilter:
    """Decides by tag code whether a group wants a message; fits the store's ``MessageFilter``.

    Compatibility: ``DefaultMessageFilter`` (4.9.8). A subscription without codes that is not ``*`` wants nothing. Java
    compares the low 32 bits of the code, which differ from all 64 only in units that hold no hash (delay queues).
    """

    subscription: SubscriptionData
    needs_record: bool = attrs.field(default=False, init=False)
    _wants_all: bool = attrs.field(init=False)
    _codes: frozenset[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        subscription = self.subscription
        wants_all = subscription.sub_string == SUB_ALL or subscription.class_filter_mode
        object.__setattr__(self, "_wants_all", wants_all)
        object.__setattr__(self, "_codes", frozenset(subscription.code_set))

    def is_matched_by_consume_queue(self, tags_code: int, ext: object | None = None) -> bool:
        """Return whether a unit with this tag code is wanted, whatever else is known of it."""
        return self._wants_all or tags_code in self._codes

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Return whether the record is wanted: the tag code has said all there is to say."""
        return True


def has_tag(subscription: SubscriptionData, tags: str | None) -> bool:
    """Return whether a consumer wants a message with these tags: the comparison of the text that a client makes."""
    return not subscription.tags_set or subscription.class_filter_mode or tags in subscription.tags_set
