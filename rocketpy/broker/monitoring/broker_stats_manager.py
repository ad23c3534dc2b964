"""Statistics of puts and gets by topic, group and queue, under RocketMQ's names and keys.

::

    name                                  key                        counted
    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE        topic                      messages, bytes of records; times: requests
    GROUP_GET_NUMS, GROUP_GET_SIZE        topic@group                messages, bytes of records; times: pulls
    GROUP_GET_LATENCY                     queueId@topic@group        ms that a pull took (topic@group without detail)
    SNDBCK_PUT_NUMS                       topic@group                messages that a group sent back
    QUEUE_PUT_NUMS, QUEUE_PUT_SIZE        topic@queueId              delayed messages, with detail only
    QUEUE_GET_NUMS, QUEUE_GET_SIZE        topic@queueId@group        delayed messages delivered, with detail only
    BROKER_PUT_NUMS, BROKER_GET_NUMS      cluster name               messages of all topics
    GROUP_/BROKER_GET_FROM_DISK_NUMS/SIZE                            always 0, as in RocketMQ
    COMMERCIAL_...                        owner@topic@group@type     values from hooks
    GROUP_GET_FALL_SIZE, ..._TIME         queueId@topic@group        lag of the last pull; in logs only

The fast paths do not call this class: they add to the objects of :mod:`.counters`, which are drained before each sample
(:class:`~rocketpy.broker.monitoring.stats_service.BrokerStatsService`) and before each query.

What is counted under the name of a topic or group goes with its deletion, and otherwise an hour after it was last
counted. All of it together holds at most ``STATS_BYTES_MAX``.

Compatibility: ``BrokerStatsManager`` and ``LmqBrokerStatsManager`` (4.9.8). BROKER_PUT_NUMS counts
everything that is counted for topics, including messages sent back. A deleted topic's counters are removed even when
``enableDetailStat`` is off. RocketMQ keeps every counter for as long as it runs, those of deleted topics and groups
too unless ``autoDeleteUnusedStats`` is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpy.broker.monitoring.counters import (
    GROUP_GET_BYTES,
    HEAD_SIZE,
    IDLE_ROUNDS,
    TOPIC_PUT_BYTES,
    GroupGetCounter,
    TopicPutCounter,
    last_record,
)
from rocketpy.broker.monitoring.stats_item import (
    CHARACTER_BYTES,
    MomentStatsItemSet,
    StatsItem,
    StatsItemSet,
    StatsKey,
    StatsMemory,
    StatsWindow,
)
from rocketpy.clock import Clock
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.read.plain_read import PlainRead
from rocketpy.store.results import GetMessageResult

QUEUE_NAMES = ("QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE", "QUEUE_GET_NUMS", "QUEUE_GET_SIZE")
"""Present with ``enableDetailStat`` only."""

STATS_NAMES = (
    "TOPIC_PUT_NUMS",
    "TOPIC_PUT_SIZE",
    "GROUP_GET_NUMS",
    "GROUP_GET_SIZE",
    "GROUP_GET_LATENCY",
    "SNDBCK_PUT_NUMS",
    "BROKER_PUT_NUMS",
    "BROKER_GET_NUMS",
    "GROUP_GET_FROM_DISK_NUMS",
    "GROUP_GET_FROM_DISK_SIZE",
    "BROKER_GET_FROM_DISK_NUMS",
    "BROKER_GET_FROM_DISK_SIZE",
)
COMMERCIAL_NAMES = (
    "COMMERCIAL_SEND_TIMES",
    "COMMERCIAL_RCV_TIMES",
    "COMMERCIAL_SEND_SIZE",
    "COMMERCIAL_RCV_SIZE",
    "COMMERCIAL_RCV_EPOLLS",
    "COMMERCIAL_SNDBCK_TIMES",
    "COMMERCIAL_PERM_FAILURES",
)

_CLUSTER = StatsKey("cluster")
_TOPIC = StatsKey("topic")
_TOPIC_GROUP = StatsKey("topic", "group")
_QUEUE_TOPIC_GROUP = StatsKey("queueId", "topic", "group")
_KEYS = {
    "QUEUE_PUT_NUMS": StatsKey("topic", "queueId"),
    "QUEUE_PUT_SIZE": StatsKey("topic", "queueId"),
    "QUEUE_GET_NUMS": StatsKey("topic", "queueId", "group"),
    "QUEUE_GET_SIZE": StatsKey("topic", "queueId", "group"),
    "TOPIC_PUT_NUMS": _TOPIC,
    "TOPIC_PUT_SIZE": _TOPIC,
    "BROKER_PUT_NUMS": _CLUSTER,
    "BROKER_GET_NUMS": _CLUSTER,
    "BROKER_GET_FROM_DISK_NUMS": _CLUSTER,
    "BROKER_GET_FROM_DISK_SIZE": _CLUSTER,
    **dict.fromkeys(COMMERCIAL_NAMES, StatsKey("owner", "topic", "group", "type")),
}
"""What keys are made of; those of other names are topic and group."""


class BrokerStatsManager:
    """The statistics of one broker. In memory only; no method blocks."""

    def __init__(
        self,
        *,
        cluster_name: str,
        clock: Clock,
        enable_detail_stat: bool = True,
        disk_fall_recorded: bool = True,
        enable_lmq: bool = False,
    ) -> None:
        self._cluster_name = cluster_name
        self._timestamp_ms = clock.timestamp_ms
        self._enable_detail_stat = enable_detail_stat
        self._disk_fall_recorded = disk_fall_recorded
        self._enable_lmq = enable_lmq
        names = (*(QUEUE_NAMES if enable_detail_stat else ()), *STATS_NAMES, *COMMERCIAL_NAMES)
        self._memory = StatsMemory()
        self._sets = {name: self._new_set(name) for name in names}
        self._fall_size = MomentStatsItemSet("GROUP_GET_FALL_SIZE", memory=self._memory)
        self._fall_time = MomentStatsItemSet("GROUP_GET_FALL_TIME", memory=self._memory)
        self._topic_puts: dict[str, TopicPutCounter] = {}
        self._group_gets: dict[tuple[str, str, int], GroupGetCounter] = {}
        self.on_forgotten: list[Callable[[], None]] = []
        """Listeners that drop the counters that they got from :meth:`topic_put_counter`: one of them counts no more."""

    # ---- fast paths -----------------------------------------------------------------------------------------------

    def topic_put_counter(self, topic: str) -> TopicPutCounter:
        """Return the counter of a topic for a fast path that counts each message, until ``on_forgotten`` is called."""
        counter = self._topic_puts.get(topic)
        if counter is None:
            counter = TopicPutCounter(topic)
            if self._memory.take(_topic_put_bytes(topic)):
                self._topic_puts[topic] = counter
        return counter

    def inc_pulled(
        self, group: str, topic: str, queue_id: int, result: GetMessageResult | PlainRead, log_end: int
    ) -> None:
        """Count the messages of a non-empty pull. ``log_end``, the log's end offset, gives the group's lag.

        The latency of a pull served at once counts as 0; for cold pulls see :meth:`inc_pull_wait`.
        """
        key = group, topic, queue_id
        try:
            counter = self._group_gets[key]
        except KeyError:
            counter = GroupGetCounter(group, topic, queue_id)
            if self._memory.take(_group_get_bytes(group, topic)):
                self._group_gets[key] = counter
        body, last_size = result.body, result.last_record_size
        size = len(body)
        counter.pull_count += 1
        counter.message_count += result.message_count
        counter.size_bytes += size - result.head_size
        begin = size - last_size if last_size else last_record(body)
        counter.last_head = body[begin : begin + HEAD_SIZE]
        counter.log_end = log_end
        counter.pulled_ms = self._timestamp_ms()

    # ---- general paths --------------------------------------------------------------------------------------------

    def inc_topic_put(self, topic: str, count: int, size_bytes: int) -> None:
        """Count the messages of one request for topic and broker; ``size_bytes`` is the size of their records."""
        self._sets["TOPIC_PUT_NUMS"].add(topic, count)
        self._sets["TOPIC_PUT_SIZE"].add(topic, size_bytes)
        self._sets["BROKER_PUT_NUMS"].add(self._cluster_name, count, 0)

    def inc_group_get(self, group: str, topic: str, count: int, size_bytes: int) -> None:
        """Count the messages of one pull for group and broker."""
        key = self._topic_at_group(topic, group)
        self._sets["GROUP_GET_NUMS"].add(key, count)
        self._sets["GROUP_GET_SIZE"].add(key, size_bytes)
        self._sets["BROKER_GET_NUMS"].add(self._cluster_name, count, 0)

    def inc_group_get_latency(self, group: str, topic: str, queue_id: int, ms: int, times: int = 1) -> None:
        """Count the latency of pulls of a queue."""
        key = self._topic_at_group(topic, group)
        if self._enable_detail_stat:
            key = f"{queue_id}@{key}"
        self._sets["GROUP_GET_LATENCY"].add(key, ms, times)

    def inc_pull_wait(self, group: str, topic: str, queue_id: int, ms: int) -> None:
        """Add the time that a pull waited for the disk to the latency that :meth:`inc_pulled` counts."""
        self.inc_group_get_latency(group, topic, queue_id, ms, times=0)

    def inc_send_back(self, group: str, topic: str) -> None:
        """Count a message of a topic that a group sent back."""
        self._sets["SNDBCK_PUT_NUMS"].add(self._topic_at_group(topic, group), 1)

    def inc_queue_put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None:
        """Count delayed messages for their queue; nothing without ``enableDetailStat``."""
        if self._enable_detail_stat:
            self._sets["QUEUE_PUT_NUMS"].add(f"{topic}@{queue_id}", count)
            self._sets["QUEUE_PUT_SIZE"].add(f"{topic}@{queue_id}", size_bytes)

    def inc_queue_get(self, group: str, topic: str, queue_id: int, count: int, size_bytes: int) -> None:
        """Count delivered delayed messages for their queue; nothing without ``enableDetailStat``."""
        if self._enable_detail_stat:
            self._sets["QUEUE_GET_NUMS"].add(f"{topic}@{queue_id}@{group}", count)
            self._sets["QUEUE_GET_SIZE"].add(f"{topic}@{queue_id}@{group}", size_bytes)

    def record_fall(self, group: str, topic: str, queue_id: int, fall_bytes: int, fall_ms: int) -> None:
        """Record a group's lag in a queue: log bytes, unless ``diskFallRecorded`` is off, and age in milliseconds."""
        key = self._fall_key(group, topic, queue_id)
        if self._disk_fall_recorded:
            self._fall_size.set(key, fall_bytes)
        self._fall_time.set(key, fall_ms)

    def inc_commercial(self, name: str, owner: str, topic: str, group: str, type: str, value: int) -> None:
        """Count under one of COMMERCIAL_NAMES; KeyError for any other name."""
        self._sets[name].add(f"{owner}@{topic}@{group}@{type}", value)

    # ---- deletion -------------------------------------------------------------------------------------------------

    def on_topic_deleted(self, topic: str) -> None:
        """Remove the counters of a topic."""
        self.empty_counters()
        self._forget_puts([topic])
        self._forget_gets([counter for key, counter in self._group_gets.items() if key[1] == topic])
        for each in self._sets.values():
            each.forget("topic", topic)

    def on_group_deleted(self, group: str) -> None:
        """Remove the counters of a group."""
        self.empty_counters()
        self._forget_gets([counter for key, counter in self._group_gets.items() if key[0] == group])
        for each in self._sets.values():
            each.forget("group", group)

    # ---- figures --------------------------------------------------------------------------------------------------

    def get_stats_item(self, name: str, key: str) -> StatsItem | None:
        """Return a counter; None for an unknown name or when nothing was counted under the key."""
        self.empty_counters()
        found = self._sets.get(name)
        return None if found is None else found.get(key)

    def tps_group_get_nums(self, group: str, topic: str) -> float:
        """Return how many messages of a topic a group got per second in the last minute."""
        return self._sets["GROUP_GET_NUMS"].snapshot(self._topic_at_group(topic, group), StatsWindow.MINUTE).tps

    def fall_bytes(self) -> dict[str, int]:
        """Return the lag of the last pulls in log bytes, by ``queueId@topic@group``."""
        self.empty_counters()
        return self._fall_size.table

    @property
    def dropped_count(self) -> int:
        """Number of additions dropped for want of room."""
        return sum(each.dropped_count for each in self._sets.values())

    def sample(self, window: StatsWindow, now: float) -> Iterator[None]:
        """Sample all counters; yields after each one. ``now`` is in seconds of a monotonic clock.

        The samples of an hour also find the counters that nothing has touched for an hour, and forget them.
        """
        self.empty_counters()
        if window is StatsWindow.HOUR:
            self._forget_idle()
        for each in self._sets.values():
            yield from each.sample(window, now)

    def lines(self, window: StatsWindow) -> Iterator[str]:
        """Return a log line for each counter except the commercial ones."""
        for name, each in self._sets.items():
            if name not in COMMERCIAL_NAMES:
                yield from each.lines(window)

    def commercial_lines(self, window: StatsWindow) -> Iterator[str]:
        """Return a log line for each commercial counter."""
        for name in COMMERCIAL_NAMES:
            yield from self._sets[name].lines(window)

    def moment_lines(self) -> Iterator[str]:
        """Return a log line for each lag figure."""
        self.empty_counters()
        yield from self._fall_size.lines()
        yield from self._fall_time.lines()

    def empty_counters(self) -> None:
        """Drain the counters of the fast paths into the statistics."""
        for put in self._topic_puts.values():
            if put.count:
                self._sets["TOPIC_PUT_NUMS"].add(put.topic, put.count, put.count)
                self._sets["TOPIC_PUT_SIZE"].add(put.topic, put.size_bytes, put.count)
                self._sets["BROKER_PUT_NUMS"].add(self._cluster_name, put.count, 0)
                put.clear()
        for got in self._group_gets.values():
            if got.pull_count:
                self._take_gets(got)

    # ---- private --------------------------------------------------------------------------------------------------

    def _new_set(self, name: str) -> StatsItemSet:
        key = _KEYS.get(name, _TOPIC_GROUP)
        is_response_time = name == "GROUP_GET_LATENCY"
        if is_response_time and self._enable_detail_stat:
            key = _QUEUE_TOPIC_GROUP
        return StatsItemSet(
            name, key=key, memory=self._memory, is_response_time=is_response_time, keeps_idle=key is _CLUSTER
        )

    def _forget_idle(self) -> None:
        """Remove the fast paths' counters that nothing has touched for an hour, all of which are drained."""
        idle_topics = []
        for topic, put in self._topic_puts.items():
            put.idle_rounds += 1
            if put.idle_rounds > IDLE_ROUNDS:
                idle_topics.append(topic)
        self._forget_puts(idle_topics)
        idle_gets = []
        for got in self._group_gets.values():
            got.idle_rounds += 1
            if got.idle_rounds > IDLE_ROUNDS:
                idle_gets.append(got)
        self._forget_gets(idle_gets)

    def _forget_puts(self, topics: list[str]) -> None:
        has_forgotten = False
        for topic in topics:
            if self._topic_puts.pop(topic, None) is not None:
                self._memory.give_back(_topic_put_bytes(topic))
                has_forgotten = True
        if has_forgotten:
            for listener in self.on_forgotten:
                listener()

    def _forget_gets(self, counters: list[GroupGetCounter]) -> None:
        """Remove counters of pulls, and the lag that they left."""
        for counter in counters:
            del self._group_gets[counter.group, counter.topic, counter.queue_id]
            self._memory.give_back(_group_get_bytes(counter.group, counter.topic))
            key = self._fall_key(counter.group, counter.topic, counter.queue_id)
            self._fall_size.remove(key)
            self._fall_time.remove(key)

    def _fall_key(self, group: str, topic: str, queue_id: int) -> str:
        return f"{queue_id}@{self._topic_at_group(topic, group)}"

    def _take_gets(self, got: GroupGetCounter) -> None:
        key = self._topic_at_group(got.topic, got.group)
        self._sets["GROUP_GET_NUMS"].add(key, got.message_count, got.pull_count)
        self._sets["GROUP_GET_SIZE"].add(key, got.size_bytes, got.pull_count)
        self._sets["BROKER_GET_NUMS"].add(self._cluster_name, got.message_count, 0)
        self.inc_group_get_latency(got.group, got.topic, got.queue_id, 0, got.pull_count)
        fall = got.fall()
        if fall is not None:
            self.record_fall(got.group, got.topic, got.queue_id, *fall)
        got.clear()

    def _topic_at_group(self, topic: str, group: str) -> str:
        """Return the key of both. Light queues share one key, because there may be a million of them."""
        if self._enable_lmq:
            topic = LMQ_PREFIX if topic.startswith(LMQ_PREFIX) else topic
            group = LMQ_PREFIX if group.startswith(LMQ_PREFIX) else group
        return f"{topic}@{group}"


def _topic_put_bytes(topic: str) -> int:
    return TOPIC_PUT_BYTES + CHARACTER_BYTES * len(topic)


def _group_get_bytes(group: str, topic: str) -> int:
    return GROUP_GET_BYTES + CHARACTER_BYTES * (len(group) + len(topic))
