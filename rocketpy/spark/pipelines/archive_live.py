"""Continues the archive of a live cluster: reads each queue from the first message that the archive does not have.

The archive's own record says what it has, so no checkpoint and no consumer group is needed, and a cluster continues
what was begun from the disk of one of its brokers.

Rule: what the cluster lacks is not passed over in silence. Where a queue begins after the archive's end, messages were
deleted that no run has archived. Where it ends before, its topic was deleted and created again, or its broker has lost
the end of its log: new messages have offsets that the archive has of others, and cannot be told from them. Both are
errors, unless ``failOnDataLoss`` is false: then the first queue is read from its beginning, and the second one from the
archive's end on. A queue of a new topic that has grown past the archive's end is not noticed: an audit with the archive
finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import Cluster, QueueBounds
from rocketpy.spark.live.positions import format_positions, name_of
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.live import (
    ASSIGN,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
)
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.options.reading import TOPIC
from rocketpy.spark.pipelines.archive_log.opening import open_archive_log
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.sources import live_options, read_live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STARTS = (STARTING_OFFSETS, STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP)
_SUBSCRIPTIONS = frozenset(
    name.lower() for option in (TOPIC, SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN) for name in option.names
)


def new_live_messages(
    spark: SparkSession,
    name_server: str,
    topics: Sequence[str],
    path: str,
    *,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the messages of topics from the first one of each queue that the archive at ``path`` does not have.

    An option that says where to begin, such as ``startingTimestamp``, is obeyed instead. ``ClientError`` where messages
    are gone, unless ``failOnDataLoss`` is false; other errors as those of a read.
    """
    chosen = live_options(name_server, topics, options)
    values = parse(chosen, Mode.LIVE)
    if any(values.is_given(option) for option in _STARTS):
        return read_live(spark, chosen)
    settings = settings_of(values)
    ranges = open_archive_log(spark, path).state().ranges
    with Cluster(settings.pull.access) as cluster:
        bounds = cluster.bounds(settings.subscription.queues(cluster))
    if not bounds:  # a pattern that fits nothing
        return read_live(spark, chosen)
    starts = next_offsets(ranges, bounds, fail_on_data_loss=settings.pull.fail_on_data_loss)
    kept = {name: text for name, text in chosen.items() if name.lower() not in _SUBSCRIPTIONS}
    return read_live(spark, kept | {ASSIGN.name: _queues_text(starts), STARTING_OFFSETS.name: format_positions(starts)})


def next_offsets(
    ranges: Iterable[OffsetRange], bounds: Mapping[MessageQueue, QueueBounds], *, fail_on_data_loss: bool = True
) -> dict[MessageQueue, int]:
    """Return the offset from which each queue is read on. ``ranges`` are those of an archive, by queue and offset."""
    held = {
        MessageQueue(*queue): list(those)
        for queue, those in groupby(ranges, lambda each: (each.topic, each.broker_name, each.queue_id))
    }
    return {
        queue: _next_offset(queue, held.get(queue, []), found, fail_on_data_loss=fail_on_data_loss)
        for queue, found in bounds.items()
    }


def _next_offset(
    queue: MessageQueue, held: Sequence[OffsetRange], bounds: QueueBounds, *, fail_on_data_loss: bool
) -> int:
    if not held:
        return bounds.earliest
    end = held[-1].end
    if not bounds.earliest <= end <= bounds.latest:
        if fail_on_data_loss:
            raise ClientError(ResponseCode.PULL_OFFSET_MOVED, _loss(queue, end, bounds))
        return min(max(end, bounds.earliest), bounds.latest)
    return next((each.end for each in held if each.start <= bounds.earliest < each.end), bounds.earliest)


def _loss(queue: MessageQueue, end: int, bounds: QueueBounds) -> str:
    if end < bounds.earliest:
        return (
            f"{name_of(queue)}: offsets {end} to {bounds.earliest - 1} were deleted before they were archived "
            "(failOnDataLoss=false archives what is left)"
        )
    return (
        f"{name_of(queue)}: the archive has messages up to offset {end - 1}, the broker's queue ends at "
        f"{bounds.latest}: the topic was deleted and created again, or the broker has lost the end of its log; choose "
        f"another archive (failOnDataLoss=false goes on here with the message that gets offset {end})"
    )


def _queues_text(queues: Iterable[MessageQueue]) -> str:
    topics: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        topics.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(topics)
