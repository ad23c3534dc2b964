"""Offset of a stream: for each queue the next queue offset to read, as Spark keeps it in the checkpoint.

::

    {"version": 1,
     "queues": {"orders": {"broker-a": {"0": 17, "1": 4}}},      where the batch ends, and the next one begins
     "began":  {"orders": {"broker-a": {"1": 2}}}}               where queues begin that did not continue

What Spark does with it decides the format (Spark 4.3, ``MicroBatchExecution`` and ``PythonMicroBatchStream``):

- It writes the end of a batch into the checkpoint before the batch runs. After a crash it asks for the partitions of
  that same batch once more, from the end of the batch before to this end, and calls ``latestOffset`` only afterwards.
  So the two documents alone must give the same ranges again, whatever the cluster has become meanwhile.
- The start of the very first batch is not in the checkpoint. A restart calls ``initialOffset`` again; if that asked the
  cluster for "latest" a second time, the batch would lose what came between the two. The first offset is therefore the
  constant ``{"version": 1, "initial": true, "queues": {}}``, and the end of the first batch says where each of its
  queues began.
- The same holds for a queue that appears while the query runs, and for one that continues past a gap of lost messages:
  ``began`` of the end takes precedence over ``queues`` of the start.
- Two offsets are equal for Spark if their texts are. Without news the start is returned as it came, or an idle query
  would run empty batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.positions import name_of

VERSION = 1
_MEMBERS = frozenset(("version", "queues", "began", "initial"))
_QUEUE_ID = re.compile(r"[0-9]{1,10}")

Document = dict[str, Any]
"""An offset as JSON has it."""


@attrs.frozen
class StreamOffset:
    """Value of an offset. ``began``: where queues begin that do not continue at the offset before."""

    queues: Mapping[MessageQueue, int]
    began: Mapping[MessageQueue, int] = attrs.field(factory=dict)
    is_initial: bool = False  # before the first batch


INITIAL = StreamOffset({}, is_initial=True)


def read_offset(document: Document) -> StreamOffset:
    """Return the value of a document; :class:`SettingsError` for one that this version did not write."""
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise SettingsError(
            f"the checkpoint of the stream: expected an offset of version {VERSION}, found version {version}; "
            "it belongs to another source, or to a later rocketpy"
        )
    for name in document.keys() - _MEMBERS:
        raise SettingsError(
            f"the checkpoint of the stream: expected {', '.join(sorted(_MEMBERS))}, found {str(name)[:100]!r}; "
            "it belongs to a later rocketpy, or was edited"
        )
    is_initial = document.get("initial", False)
    if not isinstance(is_initial, bool):
        raise SettingsError(
            f"the checkpoint of the stream: expected true or false in initial, found {is_initial!r:.100}"
        )
    return StreamOffset(
        dict(_read_queues(document.get("queues"))),
        dict(_read_queues(document.get("began", {}))),
        is_initial,
    )


def write_offset(offset: StreamOffset) -> Document:
    """Return the document; equal values give equal texts."""
    document: Document = {"version": VERSION, "queues": _write_queues(offset.queues)}
    if offset.began:
        document["began"] = _write_queues(offset.began)
    if offset.is_initial:
        document["initial"] = True
    return document


def spans(start: StreamOffset, end: StreamOffset) -> list[QueueSpan]:
    """Return what the batch between two offsets reads, sorted by queue; queues without messages are left out.

    Each queue of ``end`` begins where ``end`` says so, else at ``start``. :class:`SettingsError` if neither knows it.
    """
    found = []
    for queue, last in sorted(end.queues.items()):
        first = end.began.get(queue, start.queues.get(queue))
        if first is None:
            raise SettingsError(
                f"the checkpoint of the stream: expected a beginning of {name_of(queue)}, found only its end {last}"
            )
        if first < last:
            found.append(QueueSpan(queue, first, last))
    return found


def _read_queues(topics: object) -> Iterator[tuple[MessageQueue, int]]:
    try:
        for topic, brokers in _items(topics):
            for broker_name, queues in _items(brokers):
                for queue_id, queue_offset in _items(queues):
                    if type(queue_offset) is not int or not 0 <= queue_offset < 1 << 63:
                        raise ValueError
                    if not _QUEUE_ID.fullmatch(queue_id) or int(queue_id) >= 1 << 31:
                        raise ValueError
                    yield MessageQueue(topic, broker_name, int(queue_id)), queue_offset
    except ValueError:
        raise SettingsError(
            "the checkpoint of the stream: expected offsets as {topic: {broker: {queue: offset}}}, "
            f"found {str(topics)[:200]!r}"
        ) from None


def _items(value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ValueError
    yield from value.items()


def _write_queues(offsets: Mapping[MessageQueue, int]) -> Document:
    topics: Document = {}
    for queue in sorted(offsets):
        brokers = topics.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return topics
