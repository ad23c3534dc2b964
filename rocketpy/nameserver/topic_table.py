"""Which broker name has which queues of which topic: the largest table of a nameserver.

It knows no address, no cluster and no life sign; those are ``route_info``'s, and so is who may ask.

Rule: no call takes longer than some milliseconds, however large the table is. What concerns all topics of a broker, or
all topics at all, is an iterator that does a slice of it at each step. A broker that goes leaves its topics behind for
:meth:`TopicTable.purge`; nothing shows them from then on, also not when a broker of the same name comes before they are
freed.

Queue entries are replaced, never changed, so they may leave as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

import attrs

from rocketpy.protocol.bodies.route import QueueData
from rocketpy.protocol.bodies.topic import TopicConfig

TOPICS_PER_SLICE = 1000
"""How many topics one step of an iterator, or one call of ``purge``, looks at."""

NAME_LENGTH_MAX = 512
"""Of topics, brokers, clusters and addresses. RocketMQ's longest topic, of retries, has 255 and 7 characters."""


@attrs.frozen(kw_only=True)
class TopicLimits:
    """How large the table may become; settings of the nameserver."""

    topics_max: int = 200_000
    topics_per_broker_max: int = 100_000
    routes_max: int = 2_000_000  # topics of all brokers together


@attrs.define(eq=False)
class _BrokerTopics:
    """The topics of a broker name from its first address until its last one goes; after that it has new ones."""

    broker_name: str
    queues: dict[str, QueueData] = attrs.field(factory=dict)  # topic -> queues
    is_gone: bool = False


class TopicTable:
    """The queues of all brokers."""

    def __init__(self, limits: TopicLimits) -> None:
        self._limits = limits
        self._owners: dict[str, dict[str, _BrokerTopics]] = {}  # topic -> broker name -> topics, gone ones too
        self._brokers: dict[str, _BrokerTopics] = {}  # broker name -> topics
        self._gone: deque[_BrokerTopics] = deque()  # what ``purge`` takes out of the owners
        self._route_count = 0  # of queues in all of these

    @property
    def broker_names(self) -> Collection[str]:
        """The brokers that are here, with topics or without."""
        return self._brokers.keys()

    def add_broker(self, broker_name: str) -> None:
        """Let a broker have topics."""
        assert broker_name not in self._brokers, broker_name
        self._brokers[broker_name] = _BrokerTopics(broker_name)

    def remove_broker(self, broker_name: str) -> None:
        """Let nothing show the topics of a broker any more; :meth:`purge` frees them."""
        topics = self._brokers.pop(broker_name)
        topics.is_gone = True
        self._gone.append(topics)

    def put(self, broker_name: str, topic_configs: Iterable[TopicConfig]) -> int:
        """Set topics of a broker that is here; return how many were left out because the table is full.

        Topics that are not named stay as they are. Call it with a slice of a registration at a time.
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
            topics.queues[topic] = QueueData(
                broker_name, config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
            )
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
        """Free the topics of brokers that are gone, at most so many; return whether there may be more."""
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
        """Forget a topic, or only what some brokers have of it."""
        for name, topics in list(self._owners.get(topic, {}).items()):
            if broker_names is None or name in broker_names:
                del topics.queues[topic]
                self._remove_owner(topic, topics)

    def _remove_owner(self, topic: str, topics: _BrokerTopics) -> None:
        """Let a topic have one owner less, whose queues of it are removed already."""
        self._route_count -= 1
        owners = self._owners.get(topic, {})
        if owners.get(topics.broker_name) is topics:  # and not one that came under its name since
            del owners[topics.broker_name]
            if not owners:
                del self._owners[topic]

    def change_perm(self, broker_name: str, change: Callable[[int], int]) -> Iterator[int]:
        """Change the permission of every topic of a broker; each slice says how many it had."""
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
        """Return the queues of a topic, one entry for each broker that is here and has it."""
        owners = self._owners.get(topic)
        return [] if owners is None else [each.queues[topic] for each in owners.values() if not each.is_gone]

    def topics_where(self, condition: Callable[[list[QueueData]], bool]) -> Iterator[list[str]]:
        """Yield the topics whose queues are so, in slices; what comes or goes meanwhile is among them or not."""
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
                assert topics.is_gone != (self._brokers.get(name) is topics), "an owner that nobody knows"
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
