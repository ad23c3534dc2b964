"""Plan of a batch read: which messages of which queues, in which pieces, from which brokers.

The end of each queue is captured here; later messages are not part of the read. Conditions of the query shrink the
plan where that is cheap: topics and queues are left out, ranges of offsets and of store times are cut. What is cut is
never more than the conditions exclude: the rows are compared once more when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.spark.filters import MessageFilter, Range
from rocketpy.spark.live.cluster import Cluster, QueueBounds, Replicas
from rocketpy.spark.live.limits import FirstFrom, Limit
from rocketpy.spark.live.parts import SHARED_TASK_RECORDS, TASKS_PER_CORE, QueueSpan, cut, share
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.live.settings import LiveSettings
from rocketpy.spark.live.times import CLOCK_MARGIN_MS, TimeSearch


@attrs.frozen
class QueuePart:
    """A piece of a queue, and the brokers to pull it from, in this order. ``slaves`` are some of the addresses."""

    span: QueueSpan
    addresses: tuple[str, ...]
    slaves: frozenset[str]
    advertised_by: str


TaskParts = tuple[QueuePart, ...]
"""What one task reads: a piece of a long queue, or pieces of several short ones, one after the other."""


def plan_parts(cluster: Cluster, settings: LiveSettings, *, cores: int) -> list[TaskParts]:
    """Return the parts of a batch read, task by task; see :class:`Cluster` for errors."""
    queues = settings.subscription.queues(cluster)
    bounds = cluster.bounds(queues)
    search = TimeSearch(cluster, consumer_group=settings.pull.consumer_group)

    def first_from(queue: MessageQueue, timestamp_ms: int) -> int:
        return search.first_from(queue, queues[queue], bounds[queue], timestamp_ms)

    starts = settings.starting.positions(bounds, first_from)
    ends = settings.ending.positions(bounds, first_from)
    spans = []
    for queue in sorted(queues):
        for limit, position in ((settings.starting, starts[queue]), (settings.ending, ends[queue])):
            _check(limit, queue, position, bounds[queue], is_error=settings.pull.fail_on_data_loss)
        start = max(starts[queue], bounds[queue].earliest)
        end = min(ends[queue], bounds[queue].latest)
        span = _span(settings.pull.wants, queue, start, end, first_from)
        if span is not None:
            spans.append(span)
    return parts_of(spans, queues, settings, cores=cores)


def parts_of(
    spans: Iterable[QueueSpan], queues: Mapping[MessageQueue, Replicas], settings: LiveSettings, *, cores: int
) -> list[TaskParts]:
    """Return spans as parts that tasks can read, cut as the options say and shared among tasks for so many cores."""
    pieces = cut(spans, partitions_min=settings.partitions_min, records_max=settings.records_max)
    tasks = share(
        pieces,
        tasks=max(settings.partitions_min, TASKS_PER_CORE * cores),
        records_max=min(SHARED_TASK_RECORDS, settings.records_max or SHARED_TASK_RECORDS),
    )
    return [tuple(_part(piece, queues[piece.queue], settings.read_from) for piece in task) for task in tasks]


def _part(span: QueueSpan, replicas: Replicas, read_from: str) -> QueuePart:
    """Slaves first if they are wanted; the pieces of a queue begin at different ones, so that all have work."""
    slaves = [address for number, address in replicas.addresses.items() if number != MASTER_ID]
    master = [replicas.addresses[MASTER_ID]] if MASTER_ID in replicas.addresses else []
    turn = span.queue.queue_id + span.start
    if read_from == "master" or not slaves:
        ordered = [replicas.master]
    elif read_from == "slave":
        first = turn % len(slaves)
        ordered = [*slaves[first:], *slaves[:first], *master]
    else:
        every = [*master, *slaves]
        first = turn % len(every)
        ordered = [*every[first:], *every[:first]]
    return QueuePart(span, tuple(ordered), frozenset(slaves), replicas.advertised_by)


def _check(limit: Limit, queue: MessageQueue, position: int, bounds: QueueBounds, *, is_error: bool) -> None:
    if is_error and not bounds.earliest <= position <= bounds.latest:
        raise ClientError(
            ResponseCode.PULL_OFFSET_MOVED,
            f"option {limit.option}: {name_of(queue)} offset {position} is not there, the broker has {bounds.earliest} "
            f"to {bounds.latest - 1} (failOnDataLoss=false reads what is left)",
        )


def _wanted_offsets(wants: MessageFilter, queue: MessageQueue) -> Range | None:
    """Return which offsets of a queue the conditions can want; None for a queue that they exclude.

    Messages in a light queue are those of other queues, and have the topic and the offset of those.
    """
    if queue.topic.startswith(LMQ_PREFIX):
        return Range()
    is_out = wants.topics is not None and queue.topic not in wants.topics
    is_out = is_out or (wants.queue_ids is not None and queue.queue_id not in wants.queue_ids)
    return None if is_out else wants.queue_offsets


def _span(wants: MessageFilter, queue: MessageQueue, start: int, end: int, first_from: FirstFrom) -> QueueSpan | None:
    """Return what is left of a queue under the conditions; None for nothing."""
    wanted = _wanted_offsets(wants, queue)
    if wanted is None:
        return None
    start = start if wanted.start is None else max(start, wanted.start)
    end = end if wanted.end is None else min(end, wanted.end)
    times = wants.store_timestamps_ms
    if start < end and times.start is not None:
        start = max(start, first_from(queue, times.start - CLOCK_MARGIN_MS))
    if start < end and times.end is not None:
        end = min(end, first_from(queue, times.end + CLOCK_MARGIN_MS))
    return QueueSpan(queue, start, end) if start < end else None
