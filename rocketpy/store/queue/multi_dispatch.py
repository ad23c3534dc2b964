"""Multi-dispatch: messages with one record in the log, and a unit in every queue that they name.

::

    INNER_MULTI_DISPATCH       %LMQ%alice,%LMQ%bob,Audit     what the sender says: names of queues
    INNER_MULTI_QUEUE_OFFSET   7,0,12                        what the store adds: the offset in each

The offsets are part of the stored properties, so that recovery can make the units again. A name that begins with
``%LMQ%`` is a light queue: a topic of one queue, number 0, that needs no creation. Another name's queue has the
number of the message's own. A queue that is named twice, or is the message's own, gets the message once.

Rule: nothing here changes a queue. What it returns holds as long as nothing else is appended.

Compatibility: ``MultiDispatch`` (4.9.8). RocketMQ takes any names and any number of them, and makes directories of
them; here more than ``NAMES_MAX`` of them are MESSAGE_ILLEGAL, as is a name that :func:`name_fault` objects to, or that
the owner of the store does (``may_be_named``: a broker knows which topics there are). Properties that
the offsets make too long are PROPERTIES_SIZE_EXCEEDED, not UNKNOWN_ERROR. Without enableLmq RocketMQ gives a ``%LMQ%``
queue the number of the message's own; here it is 0 all the same, because the log does not tell recovery which it was.
It bounds the number of light queues with enableLmq and enableMultiDispatch only; here either setting is enough.
RocketMQ puts half messages and delayed ones into the queues they name at once, and again in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import Protocol, TypeAlias

import attrs

from rocketpy.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_REAL_TOPIC,
    PROPERTY_WAIT_STORE_MSG_OK,
    decode_properties,
    encode_properties,
)
from rocketpy.protocol.stored_message import TOPIC_SIZE_MAX
from rocketpy.protocol.topic_name import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    NOT_ALLOWED_SEND_TOPICS,
    RETRY_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    topic_name_fault,
)
from rocketpy.store import layout
from rocketpy.store.results import PutMessageStatus

NAMES_MAX = 256
"""Limit of queues that one message may name: each new one costs two directories and a file."""

_UNREAD_TOPICS = frozenset((TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC))
"""A message in one of these has no consumer yet: the queues it names get it when it is put into its own topic."""

_OFFSET_DIGITS_MAX = 19
_SEPARATOR = ","
_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()
_LMQ = LMQ_PREFIX.encode()

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


def named_queues(text: str) -> list[str]:
    """Split INNER_MULTI_DISPATCH as Java does: empty names at the end do not count, nor does a text of blanks."""
    return text.rstrip(_SEPARATOR).split(_SEPARATOR) if text.strip(f"{_SEPARATOR} \t\n\v\f\r") else []


def name_fault(name: str) -> str | None:
    """Return why no message may name a queue, whatever topics there are; None if it may.

    The broker's own topics are refused, and the retries and dead letters of groups: their messages are assumed to come
    from the broker. Names of light queues are not topics: RocketMQ's MQTT server makes them of any text.
    """
    if name.startswith(LMQ_PREFIX):
        if layout.names_a_directory(name) and name.isprintable():
            return None
        return f"expected a light queue of at most {TOPIC_SIZE_MAX} printable bytes without a slash"
    if topic_name_fault(name) is not None or not layout.names_a_directory(name):
        return "expected the name of a topic"
    if name in NOT_ALLOWED_SEND_TOPICS or name.lower().startswith(SYSTEM_TOPIC_PREFIX):
        return "the topic is the broker's own"
    if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return "the topic is a group's own"
    return None


class MultiDispatch:
    """Addresses the messages of one store. ``may_be_named`` has the last word on a name without a fault."""

    def __init__(
        self, *, queues: Queues, limit: LmqLimit | None = None, may_be_named: Callable[[str], bool] | None = None
    ) -> None:
        self._queues = queues
        self._limit = limit
        self._may_be_named = may_be_named

    def address(self, topic: str, queue_id: int, properties: bytes) -> Addressed | PutMessageStatus:
        """Return a message's addresses, or why it is refused; without named queues the properties stay as they are."""
        if topic in _UNREAD_TOPICS:
            return Addressed(properties)
        if _DISPATCH not in properties:
            return Addressed(properties)
        values = decode_properties(properties.decode("utf-8", "replace"))
        keys = self._keys(values, queue_id)
        if isinstance(keys, PutMessageStatus):
            return keys
        if not keys:
            return Addressed(properties)
        text = _with_offsets(values, [str(self._next_offset(key)) for key in keys])
        if len(text) > PROPERTIES_SIZE_MAX:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        return Addressed(text, [key for key in dict.fromkeys(keys) if key != (topic, queue_id)])

    def refusal_of_waiting(self, properties: bytes) -> PutMessageStatus | None:
        """Return why a message that waits would be refused once it is put into its own topic; None if it would not.

        For delayed and half messages when they are sent: their properties already name that topic (REAL_TOPIC). The
        offsets, which are not known yet, are taken to be as long as they can be.
        """
        values = decode_properties(properties.decode("utf-8", "replace"))
        if self._limit is not None and self._limit.refuses([values.get(PROPERTY_REAL_TOPIC, "")]):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        keys = self._keys(values, 0)
        if isinstance(keys, PutMessageStatus):
            return keys
        is_long = keys and len(_with_offsets(values, ["9" * _OFFSET_DIGITS_MAX] * len(keys))) > PROPERTIES_SIZE_MAX
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED if is_long else None

    def _keys(self, values: Mapping[str, str], queue_id: int) -> list[QueueKey] | PutMessageStatus:
        """Return the queues that properties name, or why they may not."""
        names = named_queues(values.get(PROPERTY_INNER_MULTI_DISPATCH, ""))
        if len(names) > NAMES_MAX or any(map(self._is_objectionable, names)):
            return PutMessageStatus.MESSAGE_ILLEGAL
        if self._limit is not None and self._limit.refuses(names):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        return [(name, 0 if name.startswith(LMQ_PREFIX) else queue_id) for name in names]

    def _is_objectionable(self, name: str) -> bool:
        return name_fault(name) is not None or (self._may_be_named is not None and not self._may_be_named(name))

    def _next_offset(self, key: QueueKey) -> int:
        queue = self._queues.get(*key)
        return 0 if queue is None else queue.next_offset


class LmqLimit:
    """Bounds the number of light queues: no more are made, and while there are more all the same none is read.

    Every message counts that would make one: by its own topic, alone or in a batch, or by a name in
    INNER_MULTI_DISPATCH. Without ``enableMultiDispatch`` light queues are made by sends alone, with ``enableLmq``.

    Compatibility: ``DefaultMessageStore.getMessage`` with ``maxLmqConsumeQueueNum`` (4.9.8), which answers nothing and
    leaves the pull with a SYSTEM_ERROR; here it is PULL_NOT_FOUND. ``putMessage`` looks at the number too, and then
    ignores what it has found: RocketMQ makes any number of them.
    """

    def __init__(self, *, topics: Mapping[str, Sized], count_max: int) -> None:
        self._topics = topics
        self._count_max = count_max

    def refuses(self, topics: Iterable[str]) -> bool:
        """Whether a message for these topics would make more light queues than there may be."""
        count = len({topic for topic in topics if topic.startswith(LMQ_PREFIX) and topic not in self._topics})
        if not count or len(self._topics) + count <= self._count_max:
            return False
        return _count_light(self._topics) + count > self._count_max

    def refuses_waiting(self, properties: bytes) -> bool:
        """Whether a delayed or half message would do so once it is put into its own topic (REAL_TOPIC)."""
        if _LMQ not in properties:
            return False
        return self.refuses([decode_properties(properties.decode("utf-8", "replace")).get(PROPERTY_REAL_TOPIC, "")])

    def is_exceeded_for(self, topic: str) -> bool:
        """Whether a topic is a light queue that may not be read now."""
        return (
            topic.startswith(LMQ_PREFIX)
            and len(self._topics) > self._count_max
            and _count_light(self._topics) > self._count_max
        )


def _with_offsets(values: Mapping[str, str], offsets: Sequence[str]) -> bytes:
    """Return the properties to store: with the offsets in the queues that they name, without WAIT."""
    stored = {**values, PROPERTY_INNER_MULTI_QUEUE_OFFSET: _SEPARATOR.join(offsets)}
    stored.pop(PROPERTY_WAIT_STORE_MSG_OK, None)
    return encode_properties(stored).encode("utf-8", "replace")


def _count_light(topics: Collection[str]) -> int:
    return sum(topic.startswith(LMQ_PREFIX) for topic in topics)
