"""Where a read begins and ends in each queue, by the options of spark-sql-kafka.

===========================  ==================================================================
precedes                     option
===========================  ==================================================================
first                        ``startingTimestamp``, ``endingTimestamp``: one time for all queues
second                       ``startingOffsetsByTimestamp``, ``endingOffsetsByTimestamp``
last                         ``startingOffsets``, ``endingOffsets``
===========================  ==================================================================

JSON must name exactly the queues that are read. A batch cannot begin at the latest offset nor end at the earliest. A
queue without a message as late as the time it should begin at is an error, or begins at its end
(``startingOffsetsByTimestampStrategy=latest``); where it should end, it ends at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rocketpy.errors import ClientError, SettingsError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.live.positions import EARLIEST, LATEST, Positions, name_of
from rocketpy.spark.options.live import (
    EARLIEST_WORD,
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    LATEST_WORD,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    STARTING_TIMESTAMP,
    Offsets,
)
from rocketpy.spark.options.option import Mode, OptionValues

FirstFrom = Callable[[MessageQueue, int], int]
"""Search for the first message of a queue stored at a time or later; the queue's end without one."""
Bounds = Mapping[MessageQueue, QueueBounds]


@attrs.frozen
class Limit:
    """Beginning or end of a read. Of the three the first that is not None counts; ``option`` is its name."""

    option: str
    offsets: Offsets
    timestamps_ms: Mapping[MessageQueue, int] | None = None
    timestamp_ms: int | None = None
    is_late_an_error: bool = False

    def positions(self, bounds: Bounds, first_from: FirstFrom) -> dict[MessageQueue, int]:
        """Return the queue offset for each queue of ``bounds``; it may be out of its bounds if the user says so."""
        if self.timestamp_ms is not None:
            return self._at_times(bounds, dict.fromkeys(bounds, self.timestamp_ms), first_from)
        if self.timestamps_ms is not None:
            self._check_names(bounds, self.timestamps_ms)
            return self._at_times(bounds, self.timestamps_ms, first_from)
        if isinstance(self.offsets, str):
            is_earliest = self.offsets == EARLIEST_WORD
            return {queue: each.earliest if is_earliest else each.latest for queue, each in bounds.items()}
        self._check_names(bounds, self.offsets)
        words = {
            queue: {EARLIEST: each.earliest, LATEST: each.latest}.get(self.offsets[queue], self.offsets[queue])
            for queue, each in bounds.items()
        }
        return words

    def _at_times(self, bounds: Bounds, times_ms: Positions, first_from: FirstFrom) -> dict[MessageQueue, int]:
        found = {}
        for queue, each in bounds.items():
            found[queue] = first_from(queue, times_ms[queue])
            if self.is_late_an_error and found[queue] >= each.latest:
                raise ClientError(
                    ResponseCode.SYSTEM_ERROR,
                    f"option {self.option}: {name_of(queue)} has no message stored at {times_ms[queue]} or later "
                    "(startingOffsetsByTimestampStrategy=latest begins at its end)",
                )
        return found

    def _check_names(self, bounds: Bounds, named: Mapping[MessageQueue, int]) -> None:
        if missing := sorted(bounds.keys() - named.keys()):
            raise SettingsError(
                f"option {self.option}: expected every queue that is read, {name_of(missing[0])} is missing"
            )
        if unknown := sorted(named.keys() - bounds.keys()):
            raise SettingsError(f"option {self.option}: {name_of(unknown[0])} is not read, or not there")


def starting_limit(values: OptionValues) -> Limit:
    """Return where the options let a read begin; :class:`SettingsError` for a batch that begins at its end."""
    is_batch = values.mode is Mode.LIVE
    offsets = values[STARTING_OFFSETS] or (EARLIEST_WORD if is_batch else LATEST_WORD)
    if is_batch and (offsets == LATEST_WORD or (not isinstance(offsets, str) and LATEST in offsets.values())):
        raise SettingsError("option startingOffsets: a batch cannot begin at latest (-1), it would read nothing")
    limit = Limit(
        "startingOffsets",
        offsets,
        values[STARTING_OFFSETS_BY_TIMESTAMP],
        values[STARTING_TIMESTAMP],
        values[STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY] == "error",
    )
    return _named(limit, STARTING_TIMESTAMP.name, STARTING_OFFSETS_BY_TIMESTAMP.name)


def ending_limit(values: OptionValues) -> Limit:
    """Return where the options let a batch end; :class:`SettingsError` for one that ends at its beginning."""
    offsets = values[ENDING_OFFSETS]
    if offsets == EARLIEST_WORD or (not isinstance(offsets, str) and EARLIEST in offsets.values()):
        raise SettingsError("option endingOffsets: a batch cannot end at earliest (-2), it would read nothing")
    limit = Limit("endingOffsets", offsets, values[ENDING_OFFSETS_BY_TIMESTAMP], values[ENDING_TIMESTAMP])
    return _named(limit, ENDING_TIMESTAMP.name, ENDING_OFFSETS_BY_TIMESTAMP.name)


def _named(limit: Limit, timestamp: str, timestamps: str) -> Limit:
    if limit.timestamp_ms is not None:
        return attrs.evolve(limit, option=timestamp)
    return limit if limit.timestamps_ms is None else attrs.evolve(limit, option=timestamps)
