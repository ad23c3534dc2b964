"""Table of queues by topic and broker name, the largest table of a nameserver.

It knows no addresses, clusters or expiry; those belong to ``broker_table``.

Rule: no call takes longer than a few milliseconds, however large the table is. Operations over all topics of a broker,
or over all topics, are iterators that process one slice per step. Topics of a removed broker stay allocated until
:meth:`TopicTable.purge` frees them, but are invisible at once, even if a broker of the same name registers before.

Queue entries are replaced, never changed, so they may be handed out without a copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

import attrs

from rocketpy.protocol.bodies.route import QueueData
from rocketpy.protocol.bodies.topic import TopicConfig

TOPICS_PER_SLICE = 1000
"""Topics per step of an iterator and per call of ``purge``."""

NAME_LENGTH_MAX = 512
"""Bound for names of topics, brokers, clusters and addresses. RocketMQ's longest topic, %RETRY% + group, has 262."""


@attrs.frozen(kw_only=True)
class TopicLimits:
    """Bounds of the table, from the nameserver's settings."""

    topics_max: int = 200_000
    topics_per_broker_max: int = 100_000
    routes_max: int = 2_000_000  # topics of all brokers together


@attrs.define(eq=False)
class _BrokerTopics:
    """Topics of a broker name from its first address until the last is removed; the next registration starts empty."""

    broker_name: str
    queues: dict[str, QueueData] = attrs.field(factory=dict)  # topic -> queues
    is_gone: bool = False


class TopicTable:
    """The queues of all brokers."""

    def __init__(self, limits: TopicLimits) -> None:
        self._limits = limits
        self._owners: dict[
            str, dict[str, _BrokerTopics]
        ] = {}  # topic -> broker name -> topics, removed brokers included
        self._brokers: dict[str, _BrokerTopics] = {}  # broker name -> topics
        self._gone: deque[_BrokerTopics] = deque()  # removed, waiting for ``purge``
        self._route_count = 0  # of queues in all of these
        self.version = 0
        """Counts changes of topics and their queues that others see."""

    @property
    def broker_names(self) -> Collection[str]:
        """Names of the registered brokers, with or without topics."""
        return self._brokers.keys()

    def add_broker(self, broker_name: str) -> None:
        """Add a broker without topics."""
        assert broker_name not in self._brokers, broker_name
        self._brokers[broker_name] = _BrokerTopics(broker_name)

    def remove_broker(self, broker_name: str) -> None:
        """Hide the topics of a broker at once; :meth:`purge` frees them."""
        topics = self._brokers.pop(broker_name)
        topics.is_gone = True
        self.version += 1
        self._gone.append(topics)

    def put(self, broker_name: str, topic_configs: Iterable[TopicConfig]) -> int:
        """Set topics of a registered broker; return how many were left out because the table is full.

        Topics that are not named keep their entries. Call it with one slice of a registration at a time.
        """
        topics = self._brokers[broker_name]
        left_out = 0
        for config in topic_configs:
            topic = config.topic_name
            if topic not in topics.queues:
                if not self._has_room(topics, topic):
                    left_out += 1
                    continue
                self._owners.setdefault(topic, {})[broker_name] = topics
                self._route_count += 1
            queues = QueueData(
                broker_name, config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
            )
            if topics.queues.get(topic) != queues:
                topics.queues[topic] = queues
                self.version += 1
        return left_out

    def _has_room(self, topics: _BrokerTopics, topic: str) -> bool:
        limits = self._limits
        return (
            len(topics.queues) < limits.topics_per_broker_max
            and self._route_count < limits.routes_max
            and len(topic) <= NAME_LENGTH_MAX
            and (len(self._owners) < limits.topics_max or topic in self._owners)
        )

    def purge(self, entries_max: int = TOPICS_PER_SLICE) -> bool:
        """Free up to ``entries_max`` topics of removed brokers; return whether there may be more."""
        while self._gone:
            topics = self._gone[0]
            while topics.queues:
                if entries_max <= 0:
                    return True
                entries_max -= 1
                topic, _ = topics.queues.popitem()
                self._remove_owner(topic, topics)
            self._gone.popleft()
        return False

    def delete(self, topic: str, broker_names: Collection[str] | None = None) -> None:
        """Delete a topic, or only the entries of some brokers."""
        for name, topics in list(self._owners.get(topic, {}).items()):
            if broker_names is None or name in broker_names:
                self.version += 1
                del topics.queues[topic]
                self._remove_owner(topic, topics)

    def _remove_owner(self, topic: str, topics: _BrokerTopics) -> None:
        """Remove one owner of a topic whose queues are removed already."""
        self._route_count -= 1
        owners = self._owners.get(topic, {})
        if owners.get(topics.broker_name) is topics:  # not a later broker of the same name
            del owners[topics.broker_name]
            if not owners:
                del self._owners[topic]

    def change_perm(self, broker_name: str, change: Callable[[int], int]) -> Iterator[int]:
        """Change the permission of every topic of a broker; yield the number of topics in each slice."""
        topics = self._brokers.get(broker_name)
        if topics is None:
            return
        for names in _sliced(topics.queues):
            changed = 0
            for name in names:
                queue = topics.queues.get(name)
                if queue is not None and not topics.is_gone:
                    topics.queues[name] = attrs.evolve(queue, perm=change(queue.perm))
                    changed += 1
            yield changed

    def queues_of(self, topic: str) -> list[QueueData]:
        """Return the queues of a topic, one entry per registered broker that has it."""
        owners = self._owners.get(topic)
        return [] if owners is None else [each.queues[topic] for each in owners.values() if not each.is_gone]

    def topics_where(self, condition: Callable[[list[QueueData]], bool]) -> Iterator[list[str]]:
        """Yield the topics whose queues satisfy the condition, in slices. Concurrent changes may or may not show."""
        for names in _sliced(self._owners):
            queues = {name: self.queues_of(name) for name in names}
            yield [name for name, each in queues.items() if each and condition(each)]

    def check_invariants(self) -> None:
        """Assert that the tables agree and keep their limits; for tests."""
        owners = [*self._brokers.values(), *self._gone]
        assert self._route_count == sum(len(each.queues) for each in owners)
        assert all(self._owners.values()), "a topic without owners"
        for topic, by_name in self._owners.items():
            for name, topics in by_name.items():
                assert topic in topics.queues, "an owner without queues"
                assert topics.is_gone != (self._brokers.get(name) is topics), (
                    "an owner that is neither registered nor removed"
                )
        for topics in self._brokers.values():
            assert all(self._owners[topic][topics.broker_name] is topics for topic in topics.queues)
            assert len(topics.queues) <= self._limits.topics_per_broker_max
        assert len(self._owners) <= self._limits.topics_max
        assert self._route_count <= self._limits.routes_max


def _sliced(table: Iterable[str]) -> Iterator[list[str]]:
    """Yield the keys of a table as they are now, a slice at a time."""
    keys = list(table)
    for start in range(0, len(keys), TOPICS_PER_SLICE):
        yield keys[start : start + TOPICS_PER_SLICE]
