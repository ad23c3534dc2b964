"""Queue selectors: callables that choose the queue of a message, so that related messages share one.

``await producer.send(message, queue=queue_by_hash(order_id))`` keeps the messages of an order in one queue, as long as
the topic keeps its number of queues. Any callable that takes the queues and the message will do.

Compatibility: ``SelectMessageQueueByHash`` and ``SelectMessageQueueByRandom`` (4.9.8): a key gives the same queue as in
Java. ``SelectMessageQueueByMachineRoom`` is left out: it returns null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.message import Message, MessageQueue

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

_MASK32, _SIGN32 = 0xFFFF_FFFF, 0x8000_0000


def queue_by_hash(key: str | int) -> QueueSelector:
    """Return a selector that takes the queue number ``|key.hashCode() % n|``, with Java's hash of a String or number.

    An integer beyond int32 hashes as a Long. Raises OverflowError for one beyond int64.
    """
    hashed = abs(java_hash_of(key))

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[hashed % len(queues)]

    return select


def queue_by_random(randomness: Random | None = None) -> QueueSelector:
    """Return a selector that takes any queue."""
    random = randomness or Random()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[random.randrange(len(queues))]

    return select


def select_queue(selector: QueueSelector, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Return the queue that a selector chooses; ClientError when it fails, as in Java, or returns something else."""
    try:
        selected: object = selector(queues, message)
    except Exception as failure:
        raise ClientError(UNSPECIFIED, f"select message queue threw exception: {failure!r}") from failure
    if selected is None:
        raise ClientError(UNSPECIFIED, "select message queue return null.")
    if not isinstance(selected, MessageQueue):
        raise ClientError(UNSPECIFIED, f"select message queue returned {selected!r:.100}, expected a MessageQueue")
    return selected


def java_hash_of(key: str | int) -> int:
    """Return ``hashCode()`` of a String, an Integer or, beyond int32, a Long."""
    if isinstance(key, str):
        return java_hash(key)
    if -(2**31) <= key < 2**31:
        return int(key)
    unsigned = int.from_bytes(key.to_bytes(8, "big", signed=True), "big")
    return ((unsigned ^ unsigned >> 32) & _MASK32 ^ _SIGN32) - _SIGN32
