"""Commits the progress of a stream to a consumer group, so that RocketMQ's tools show its lag (option ``commitGroup``).

It is for the eye alone: a stream continues from its checkpoint and never reads the group's offsets back. A commit that
fails is a warning, and the next one makes up for it; an idle query, which has no next one, tries again now and then.
Positions are committed when Spark says that a batch is done, and once more when it asks for the next one, because Spark
commits one batch late and the last one never.

The tools find a group by the route of its retry topic, which a broker creates when the first member of the group
appears. Where there is none, the stream appears as a member for a moment. It never does so in a group that exists:
members share queues, and this one consumes none.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import Replicas
from rocketpy.spark.stream.watch import PEER_FAILURES

RETRY_INTERVAL_S = 10.0
"""Least time from a commit that failed to the next try with the same positions."""

_log = logging.getLogger("rocketpy.spark.stream")


class GroupBrokers(Protocol):
    """What is asked of brokers. The calls raise :data:`PEER_FAILURES`."""

    def is_group_known(self, group: str, replicas: Replicas) -> bool:
        """Return whether the retry topic of a group is on a broker."""

    def introduce_group(self, group: str, replicas: Replicas) -> None:
        """Let a broker create what a group needs, as if its first member came and went."""

    def commit_offsets(self, group: str, replicas: Replicas, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the next queue offsets that a group will consume."""


@attrs.define(eq=False)
class GroupCommit:
    """Commits what has changed since the last commit."""

    _group: str = attrs.field(alias="group")
    _brokers: GroupBrokers = attrs.field(alias="brokers")
    _clock: Callable[[], float] = attrs.field(default=time.monotonic, alias="clock", kw_only=True)
    _committed: dict[MessageQueue, int] = attrs.field(factory=dict, init=False)
    _asked: Mapping[MessageQueue, int] = attrs.field(factory=dict, init=False)  # what was to be committed last
    _failures: dict[str, str] = attrs.field(factory=dict, init=False)  # by broker; each is logged once
    _try_again_at: float | None = attrs.field(default=None, init=False)  # after a commit that failed
    _introduced: set[str] = attrs.field(factory=set, init=False)  # names of brokers that know the group

    def commit(self, positions: Mapping[MessageQueue, int], replicas: Mapping[MessageQueue, Replicas]) -> None:
        """Commit positions of queues whose broker is known. Never raises what a peer causes.

        The same positions again are no request, so an idle query does not wait for a broker that is away.
        """
        asked = {queue: position for queue, position in positions.items() if queue in replicas}
        is_due = self._try_again_at is not None and self._clock() >= self._try_again_at
        if asked == self._asked and not is_due:
            return
        self._asked, self._try_again_at = asked, None
        self._committed = {queue: position for queue, position in self._committed.items() if queue in positions}
        brokers = {queue.broker_name for queue in positions}
        self._introduced &= brokers
        self._failures = {name: failure for name, failure in self._failures.items() if name in brokers}
        changed: dict[str, dict[MessageQueue, int]] = defaultdict(dict)
        for queue, position in asked.items():
            if self._committed.get(queue) != position:
                changed[queue.broker_name][queue] = position
        for broker_name, offsets in sorted(changed.items()):
            try:
                self._commit_at(broker_name, replicas[next(iter(offsets))], offsets)
            except PEER_FAILURES as error:
                if self._failures.get(broker_name) != str(error):
                    _log.warning("stream: offsets of group %s are not committed: %s", self._group, error)
                self._failures[broker_name] = str(error)
                self._try_again_at = self._clock() + RETRY_INTERVAL_S
            else:
                self._failures.pop(broker_name, None)

    def _commit_at(self, broker_name: str, replicas: Replicas, offsets: Mapping[MessageQueue, int]) -> None:
        if broker_name not in self._introduced:
            if not self._brokers.is_group_known(self._group, replicas):
                self._brokers.introduce_group(self._group, replicas)
            self._introduced.add(broker_name)
        self._brokers.commit_offsets(self._group, replicas, offsets)
        self._committed.update(offsets)
