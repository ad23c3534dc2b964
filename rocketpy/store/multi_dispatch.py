"""Messages that stand in more queues than their own: one record in the log, a unit in every queue it names.

::

    INNER_MULTI_DISPATCH       %LMQ%alice,%LMQ%bob,Audit     what the sender says: names of queues
    INNER_MULTI_QUEUE_OFFSET   7,0,12                        what the store adds: the offset in each

The offsets are part of the stored properties, so that recovery can make the units again. A name that begins with
``%LMQ%`` is a light queue: a topic of one queue, number 0, that nobody has to create. Another name's queue has the
number of the message's own. A queue that is named twice, or is the message's own, gets the message once.

Rule: nothing here changes a queue. What it returns holds as long as nothing else is appended.

Compatibility: ``MultiDispatch`` (4.9.8). RocketMQ takes any names and any number of them, and makes directories of
them; here a name that cannot be a directory, or more than ``NAMES_MAX`` of them, is MESSAGE_ILLEGAL. Properties that
the offsets make too long are PROPERTIES_SIZE_EXCEEDED, not UNKNOWN_ERROR. Without enableLmq RocketMQ gives a ``%LMQ%``
queue the number of the message's own; here it is 0 all the same, because the log does not tell recovery which it was.
RocketMQ puts half messages and delayed ones into the queues they name at once, and again in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Protocol, TypeAlias

import attrs

from rocketpy.protocol.properties import (
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_WAIT_STORE_MSG_OK,
    decode_properties,
    encode_properties,
)
from rocketpy.protocol.topic_name import LMQ_PREFIX, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from rocketpy.store import layout
from rocketpy.store.results import PutMessageStatus

NAMES_MAX = 256
"""So many queues one message may name: each new one costs two directories and a file."""

_NOBODY_READS = frozenset((TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC))
"""A message in one of these is for nobody yet: the queues it names get it when it is put into its own topic."""

_SEPARATOR = ","
_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()

QueueKey: TypeAlias = tuple[str, int]
"""Topic and queue id."""


class Queue(Protocol):
    """A queue, as far as it matters here."""

    next_offset: int
    """Of the next message, those that are not written yet counted."""


class Queues(Protocol):
    """The queues of a store."""

    def get(self, topic: str, queue_id: int, /) -> Queue | None:
        """Return a queue if there is one."""
        ...


@attrs.frozen
class Addressed:
    """A message with its addresses: the properties to store, and the queues it goes into besides its own."""

    properties: bytes
    queue_keys: Sequence[QueueKey] = ()


class MultiDispatch:
    """Addresses the messages of one store."""

    def __init__(self, *, queues: Queues, limit: LmqLimit | None = None) -> None:
        self._queues = queues
        self._limit = limit

    def address(self, topic: str, queue_id: int, properties: bytes) -> Addressed | PutMessageStatus:
        """Return a message's addresses, or why it is refused; without named queues the properties stay as they are."""
        if topic in _NOBODY_READS:
            return Addressed(properties)
        if self._limit is not None and topic.startswith(LMQ_PREFIX) and not self._may_have([(topic, queue_id)]):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        if _DISPATCH not in properties:
            return Addressed(properties)
        values = decode_properties(properties.decode("utf-8", "replace"))
        names = _names(values.get(PROPERTY_INNER_MULTI_DISPATCH, ""))
        if not names:
            return Addressed(properties)
        if len(names) > NAMES_MAX or not all(map(layout.names_a_directory, names)):
            return PutMessageStatus.MESSAGE_ILLEGAL
        keys = [(name, 0 if name.startswith(LMQ_PREFIX) else queue_id) for name in names]
        if self._limit is not None and not self._may_have(keys):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        values[PROPERTY_INNER_MULTI_QUEUE_OFFSET] = _SEPARATOR.join([str(self._next_offset(key)) for key in keys])
        values.pop(PROPERTY_WAIT_STORE_MSG_OK, None)
        text = encode_properties(values).encode("utf-8", "replace")
        if len(text) > layout.PROPERTIES_SIZE_MAX:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        return Addressed(text, [key for key in dict.fromkeys(keys) if key != (topic, queue_id)])

    def _may_have(self, keys: Sequence[QueueKey]) -> bool:
        """Whether those light queues among ``keys`` that there are not yet may be made."""
        missing = {key for key in keys if key[0].startswith(LMQ_PREFIX) and self._queues.get(*key) is None}
        return not missing or self._limit is None or self._limit.has_room_for(len(missing))

    def _next_offset(self, key: QueueKey) -> int:
        queue = self._queues.get(*key)
        return 0 if queue is None else queue.next_offset


class LmqLimit:
    """Bounds the number of light queues: no more are made, and while there are more all the same none is read.

    Compatibility: ``DefaultMessageStore.getMessage`` with ``maxLmqConsumeQueueNum`` (4.9.8), which answers nothing and
    leaves the pull with a SYSTEM_ERROR; here it is PULL_NOT_FOUND. ``putMessage`` looks at the number too, and then
    passes over what it has found: RocketMQ makes any number of them.
    """

    def __init__(self, *, topics: Mapping[str, Sized], count_max: int) -> None:
        self._topics = topics
        self._count_max = count_max

    def has_room_for(self, count: int) -> bool:
        """Whether so many more light queues may be made."""
        return len(self._topics) + count <= self._count_max or _count_light(self._topics) + count <= self._count_max

    def is_exceeded_for(self, topic: str) -> bool:
        """Whether a topic is a light queue that may not be read now."""
        return (
            topic.startswith(LMQ_PREFIX)
            and len(self._topics) > self._count_max
            and _count_light(self._topics) > self._count_max
        )


def _names(text: str) -> list[str]:
    """Split as Java does: empty names at the end do not count, nor does a text of blanks."""
    return text.rstrip(_SEPARATOR).split(_SEPARATOR) if text.strip(f"{_SEPARATOR} \t\n\v\f\r") else []


def _count_light(topics: Collection[str]) -> int:
    return sum(topic.startswith(LMQ_PREFIX) for topic in topics)
