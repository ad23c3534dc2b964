"""Offsets of queues as text: the JSON of the options ``startingOffsets``, ``endingOffsets`` and ``assign``.

::

    {"orders": {"broker-a": {"0": 17, "1": -2}}}      a number for each queue: topic, broker, queue
    {"orders": {"broker-a": [0, 1]}}                  queues alone

Both are the forms of Apache's rocketmq-spark; spark-sql-kafka's have no broker, because Kafka numbers the partitions of
a topic across brokers. -2 and -1 stand for the earliest and the latest offset, as there. Errors are ``ValueError``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rocketpy.protocol.message import MessageQueue

EARLIEST = -2
LATEST = -1

Positions = Mapping[MessageQueue, int]

OFFSETS_EXAMPLE = '{"topic": {"broker-a": {"0": 17}}}'
QUEUES_EXAMPLE = '{"topic": {"broker-a": [0, 1]}}'

_NUMBER_MAX = 2**63 - 1


def parse_positions(text: str, *, least: int = EARLIEST) -> dict[MessageQueue, int]:
    """Return the number of each queue, none of them below ``least``."""
    positions: dict[MessageQueue, int] = {}
    for topic, broker_name, queues in _brokers(text):
        for queue_id, number in _object(queues, f"queues of broker {broker_name}").items():
            queue = MessageQueue(topic, broker_name, _queue_id(queue_id))
            if type(number) is not int or not least <= number <= _NUMBER_MAX:
                raise ValueError(f"expected a number of {least} or more for {name_of(queue)}, found {_shown(number)}")
            positions[queue] = number
    if not positions:
        raise ValueError("it names no queue")
    return positions


def parse_queues(text: str) -> frozenset[MessageQueue]:
    """Return the queues that a text names."""
    found = [
        MessageQueue(topic, broker_name, _queue_id(queue_id))
        for topic, broker_name, queue_ids in _brokers(text)
        for queue_id in _list(queue_ids, f"queues of broker {broker_name}")
    ]
    if not found:
        raise ValueError("it names no queue")
    return frozenset(found)


def format_positions(positions: Positions) -> str:
    """Return the text; equal positions give equal texts."""
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(positions):
        topics.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = positions[queue]
    return json.dumps(topics)


def name_of(queue: MessageQueue) -> str:
    """Return how messages name a queue."""
    return f"topic {queue.topic} broker {queue.broker_name} queue {queue.queue_id}"


def _brokers(text: str) -> Iterator[tuple[str, str, Any]]:
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    for topic, brokers in _object(document, "topics").items():
        for broker_name, queues in _object(brokers, f"brokers of topic {topic}").items():
            yield topic, broker_name, queues


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is named twice")
    return found


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object with the {what}, found {_shown(value)}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list with the {what}, found {_shown(value)}")
    return value


def _queue_id(value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise ValueError(f"expected the number of a queue, found {_shown(value)}")
    return int(text)


def _shown(value: Any) -> str:
    return json.dumps(value)[:100]
