"""Table of topics, persisted in ``topics.json``.

It maps a topic to its :class:`TopicConfig`. Rules: the broker's own topics always exist; every change increments the
data version, by which nameservers and slaves detect that they are out of date; a change is in the table at once and in
the file soon after (PersistService), or before the response (administration).

An automatically created topic may be lost when the process is killed before the file is written, while its messages
remain: at start :meth:`TopicConfigManager.restore_from_queues` recreates such topics from their queues.

Automatically created topics (sends, retries, dead letters) are bounded together, in number and in bytes, because the
whole table must fit a response. Operators, recovery and the broker's own topics are exempt.

Compatibility: ``TopicConfigManager`` and ``LmqTopicConfigManager`` (4.9.8). Automatic creation works
again after it is switched back on; in RocketMQ the template keeps the permission that it lost meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.auto_create_bounds import AutoCreateBounds
from rocketpy.broker.metadata.config_text import config_text, log_put
from rocketpy.broker.metadata.new_topics import NewTopics
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.metadata.topic_names import (
    check_topic_name,
    is_system_topic,
)
from rocketpy.clock import Clock
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.log_files import event_fields, is_logged
from rocketpy.protocol.bodies.codec import decode_value
from rocketpy.protocol.bodies.topic import DataVersion, ReplicatedTopics, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import PERM_INHERIT, PERM_READ_WRITE
from rocketpy.protocol.fastjson.file_notes import FileNotes, path_in
from rocketpy.protocol.topic_name import (
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    BENCHMARK_TOPIC,
    LMQ_PREFIX,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    may_be_in_table,
)
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

SCHEDULE_TOPIC_QUEUE_NUMS = 18
QUEUE_NUMS_MAX = 65_535
"""The most queues a topic may have here; RocketMQ has no limit and fails for lack of memory."""

PERM_BITS = 15
"""The bits of a topic's permission that RocketMQ has names for; 8, a priority, means nothing in 4.9."""

_ENTRY_BYTES = 160
"""Largest size of a topic in the table's JSON without its name, which occurs twice."""

_log = logging.getLogger("rocketpy.broker")


class TopicConfigManager:
    """The topics of one broker."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        path: str,
        disk: Disk,
        run_blocking: RunBlocking,
        clock: Clock,
        enable_lmq: bool = False,
    ) -> None:
        self._config = config
        self._clock = clock
        self._enable_lmq = enable_lmq
        self.topic_config_table: dict[str, TopicConfig] = {}
        """May be read directly, also by the fast path: it stays the same object. Change it only through the methods."""
        self._bounds = AutoCreateBounds(
            entry_bytes=_ENTRY_BYTES,
            count_max=lambda: config.auto_create_topic_max,
            count_key="autoCreateTopicMax",
            bytes_max=lambda: config.auto_create_table_bytes_max,
        )
        self.new = NewTopics()
        """Automatically created topics that are not registered with the nameservers yet."""
        self._refused_count = 0
        self.data_version = DataVersion(timestamp=clock.timestamp_ms(), counter=0)
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)
        for topic_config in self._own_topics():
            self._put(topic_config)
        self._own_topic_names = frozenset(self.topic_config_table)

    def load(self) -> None:
        """Load the file over the broker's own topics; StartError when file and backup are malformed."""
        loaded = self.stored.load(_decode_file)
        if loaded is None:
            return
        own = dict(self.topic_config_table)
        self.topic_config_table.clear()
        self.topic_config_table.update(loaded.topic_config_table)
        for topic, topic_config in own.items():
            self.topic_config_table.setdefault(topic, topic_config)
        self._bounds.recount(self.topic_config_table)
        self.data_version = loaded.data_version
        if self.full_because is not None:
            _log.warning("%s is large: %s; no topic is created automatically", self.stored.path, self.full_because)

    def select_topic_config(self, topic: str) -> TopicConfig | None:
        """Return the configuration of a topic, None if it does not exist; light queues share a fixed one."""
        if self._enable_lmq and topic.startswith(LMQ_PREFIX):
            return _topic(topic, 1)
        return self.topic_config_table.get(topic)

    def is_known(self, topic: str) -> bool:
        """Whether a topic exists, or is the broker's own, which may have queues without a configuration."""
        return self.select_topic_config(topic) is not None or self.is_system_topic(topic)

    @property
    def full_because(self) -> str | None:
        """The bound that stops automatic creation, for remarks and logs; None while there is room."""
        return self._bounds.full_because(len(self.topic_config_table))

    def is_system_topic(self, topic: str) -> bool:
        """Whether a topic is the broker's own, which administration may not change."""
        return is_system_topic(topic, self._own_topic_names)

    def system_topics(self) -> list[str]:
        """Return the names of the broker's own topics, sorted."""
        return sorted(SYSTEM_TOPICS | self._own_topic_names)

    def create_topic_in_send_message_method(
        self, topic: str, default_topic: str, peer: str, client_default_topic_queue_nums: int, topic_sys_flag: int
    ) -> TopicConfig | None:
        """Create a topic from the template ``default_topic`` and return it; an existing topic is returned unchanged.

        None when the template is missing or has no inherit permission. ``peer`` is the producer.
        """
        existing = self.topic_config_table.get(topic)
        if existing is not None:
            return existing
        model = self.topic_config_table.get(default_topic)
        if model is None:
            fields = event_fields(topic=topic, peer=peer, model=default_topic)
            _log.warning("topic not created: its model does not exist", extra=fields)
            return None
        if default_topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not self._config.auto_create_topic_enable:
            # A TBW102 loaded from an old topics.json stops being a template once automatic creation is off.
            model = attrs.evolve(model, perm=PERM_READ_WRITE)
            self.topic_config_table[default_topic] = model
        if not model.perm & PERM_INHERIT:
            fields = event_fields(topic=topic, peer=peer, model=default_topic)
            _log.warning("topic not created: its model is not inherited", extra=fields)
            return None
        queue_nums = max(0, min(client_default_topic_queue_nums, model.write_queue_nums))
        return self._created(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_nums,
                write_queue_nums=queue_nums,
                perm=model.perm & ~PERM_INHERIT,
                topic_filter_type=model.topic_filter_type,
                topic_sys_flag=topic_sys_flag,
            )
        )

    def queue_to_deliver(self, topic: str, queue_id: int) -> int:
        """Return the queue for a message that was meant for a queue some time ago: the same, unless consumers no longer
        read it because the topic has been given fewer queues since; then one that they do.
        """
        config = self.topic_config_table.get(topic)
        if config is None or queue_id < config.read_queue_nums:
            return queue_id
        return queue_id % max(1, min(config.read_queue_nums, config.write_queue_nums))

    def create_topic_in_send_message_back_method(
        self, topic: str, queue_nums: int, perm: int, topic_sys_flag: int
    ) -> TopicConfig | None:
        """Create an internal topic (retry, dead letters) and return it; an existing one is returned unchanged.

        None when the table is full, except for the broker's own topics.
        """
        existing = self.topic_config_table.get(topic)
        if existing is not None:
            return existing
        why = None if self.is_system_topic(topic) else self.full_because
        if why is not None:
            self._refused_count += 1
            if is_logged(self._refused_count):
                _log.warning("topic not created: %s", why, extra=event_fields(topic=topic))
            return None
        return self._created(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_nums,
                write_queue_nums=queue_nums,
                perm=perm,
                topic_sys_flag=topic_sys_flag,
            )
        )

    def update_topic_config(self, topic_config: TopicConfig) -> None:
        """Create or replace a topic for an administrator; light queues cannot be changed."""
        if self._enable_lmq and topic_config.topic_name.startswith(LMQ_PREFIX):
            return
        old = self.topic_config_table.get(topic_config.topic_name)
        self._put(topic_config)
        log_put(_log, "topic", topic_config, old)
        self._changed()

    def take(self, wrapper: TopicConfigSerializeWrapper | ReplicatedTopics, *, drops: bool = True) -> bool:
        """Replace the table by a master's, with its data version; False when both are equal already.

        The broker's own topics stay even if the master has them not, and without ``drops`` all others do.
        Compatibility: RocketMQ's slave compares versions.
        """
        table = dict(wrapper.topic_config_table)
        for topic in self._own_topic_names if drops else self.topic_config_table:
            if topic in self.topic_config_table:
                table.setdefault(topic, self.topic_config_table[topic])
        if self.data_version == wrapper.data_version and self.topic_config_table == table:
            return False
        self.topic_config_table.clear()
        self.topic_config_table.update(table)
        self._bounds.recount(table)
        self.data_version = wrapper.data_version
        self.stored.changed()
        return True

    def delete_topic_config(self, topic: str) -> bool:
        """Delete a topic; False when it does not exist. Its queues and offsets are deleted by the caller."""
        old = self.topic_config_table.pop(topic, None)
        if old is None:
            return False
        self._bounds.removed(topic)
        _log.info("topic deleted", extra=event_fields(topic=topic, was=config_text(old)))
        self._changed()
        return True

    def update_order_topic_config(self, order_topics: Iterable[str]) -> None:
        """Mark exactly these topics as ordered: the keys of the nameserver's ORDER_TOPIC_CONFIG."""
        wanted = set(order_topics)
        has_changed = False
        for topic, topic_config in self.topic_config_table.items():
            if topic_config.order != (topic in wanted):
                self.topic_config_table[topic] = attrs.evolve(topic_config, order=topic in wanted)
                has_changed = True
        if has_changed:
            self._changed()

    def settings_changed(self) -> None:
        """Restore the template's inherit permission when automatic creation is on.

        While it is off, the first producer's request removes that permission, and the file may keep the removal.
        Therefore this is also called after a load.
        """
        name = AUTO_CREATE_TOPIC_KEY_TOPIC
        model = next((each for each in self._own_topics() if each.topic_name == name), None)
        known = self.topic_config_table.get(name)
        if model is not None and (known is None or not known.perm & PERM_INHERIT):
            self.update_topic_config(model if known is None else attrs.evolve(known, perm=model.perm))

    def next_version(self) -> None:
        """Increment the data version for a change outside the table: of ``brokerPermission``."""
        self._changed()

    def restore_from_queues(self, queues: Iterable[tuple[str, int]]) -> list[str]:
        """Create the topics that have queues in the store but no configuration; return their names.

        Only while automatic creation is on: otherwise every topic was in the file before its first message.
        """
        if not self._config.auto_create_topic_enable:
            return []
        largest: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in self.topic_config_table and not _is_queue_without_topic(topic):
                largest[topic] = max(queue_id, largest.get(topic, 0))
        for topic, queue_id in largest.items():
            is_internal = topic.startswith("%")
            queue_nums = max(queue_id + 1, 1 if is_internal else self._config.default_topic_queue_nums)
            self._created(_topic(topic, queue_nums))
        return sorted(largest)

    def wrapper(self, *, broker_permission: int = PERM_READ_WRITE) -> TopicConfigSerializeWrapper:
        """Return the whole table in its wire form; a permission other than read-write replaces every topic's.

        Compatibility: such a copy loses order and system flag (``BrokerController.registerBrokerAll``).
        """
        table: Mapping[str, TopicConfig] = self.topic_config_table
        if broker_permission & PERM_READ_WRITE != PERM_READ_WRITE:
            table = {
                topic: TopicConfig(
                    topic_name=topic,
                    read_queue_nums=each.read_queue_nums,
                    write_queue_nums=each.write_queue_nums,
                    perm=broker_permission,
                )
                for topic, each in table.items()
            }
        return TopicConfigSerializeWrapper(data_version=self.data_version, topic_config_table=dict(table))

    # ---- private --------------------------------------------------------------------------------------------------

    def _put(self, topic_config: TopicConfig) -> None:
        topic = topic_config.topic_name
        if topic not in self.topic_config_table:
            self._bounds.added(topic)
        self.topic_config_table[topic] = topic_config

    def _created(self, topic_config: TopicConfig) -> TopicConfig:
        self._put(topic_config)
        log_put(_log, "topic", topic_config, None)
        self._changed()
        self.new.add(topic_config.topic_name, self.stored.change_count)
        return topic_config

    def _changed(self) -> None:
        self.data_version = self.data_version.next_version(self._clock.timestamp_ms())
        self.stored.changed()

    def _snapshot(self) -> object:
        return self.wrapper()

    def _own_topics(self) -> list[TopicConfig]:
        config = self._config
        topics = [
            _topic(SELF_TEST_TOPIC, 1),
            _topic(BENCHMARK_TOPIC, 1024),
            _topic(config.broker_cluster_name, 16, _own_perm(is_enabled=config.cluster_topic_enable)),
            _topic(config.broker_name, 1, _own_perm(is_enabled=config.broker_topic_enable)),
            _topic(OFFSET_MOVED_TOPIC, 1),
            _topic(SCHEDULE_TOPIC, SCHEDULE_TOPIC_QUEUE_NUMS),
            _topic(f"{config.broker_cluster_name}_REPLY_TOPIC", 1),
        ]
        if config.auto_create_topic_enable:
            perm = PERM_READ_WRITE | PERM_INHERIT
            topics.append(_topic(AUTO_CREATE_TOPIC_KEY_TOPIC, config.default_topic_queue_nums, perm))
        if config.trace_topic_enable:
            topics.append(_topic(config.msg_trace_topic_name, 1))
        return topics


def _decode_file(content: object, notes: FileNotes) -> TopicConfigSerializeWrapper:
    wrapper = decode_value(content, TopicConfigSerializeWrapper, notes)
    table = wrapper.topic_config_table
    for name, topic_config in list(table.items()):
        if not may_be_in_table(name):
            # Its queues could have no directory, and a slave refuses a table that has it.
            notes.value(path_in("topicConfigTable", name), name, "the name of a topic", "it is left out")
            del table[name]
        elif topic_config.topic_name != name or not _is_in_range(topic_config):
            table[name] = _fitted(topic_config, name, notes)
    return wrapper


def _is_in_range(topic_config: TopicConfig) -> bool:
    return (
        0 <= topic_config.read_queue_nums <= QUEUE_NUMS_MAX
        and 0 <= topic_config.write_queue_nums <= QUEUE_NUMS_MAX
        and 0 <= topic_config.perm <= PERM_BITS
    )


def _fitted(topic_config: TopicConfig, name: str, notes: FileNotes) -> TopicConfig:
    """Return a topic of the file as RocketMQ would act on it, so that nameservers and slaves take it, too."""
    path = path_in("topicConfigTable", name)
    if topic_config.topic_name != name:
        # An entry that was copied by hand: everything looks a topic up by its key, and registers it by this name.
        notes.value(
            path_in(path, "topicName"), topic_config.topic_name, f"the entry's key {name!r:.100}", "the key counts"
        )
    perm = topic_config.perm
    if not 0 <= perm <= PERM_BITS:
        perm &= PERM_READ_WRITE | PERM_INHERIT
        expected = "a sum of 4 (read), 2 (write) and 1 (inherit)"
        notes.value(
            path_in(path, "perm"), topic_config.perm, expected, f"{perm} counts, which are the bits that it has"
        )
    return attrs.evolve(
        topic_config,
        topic_name=name,
        perm=perm,
        read_queue_nums=queue_nums_in(topic_config.read_queue_nums, path_in(path, "readQueueNums"), notes),
        write_queue_nums=queue_nums_in(topic_config.write_queue_nums, path_in(path, "writeQueueNums"), notes),
    )


def queue_nums_in(found: int, path: str, notes: FileNotes, what_counts: str = "0 counts") -> int:
    """Return the number of queues that a file has at ``path``.

    A negative one counts as none: that hides nothing, for no queue has a negative number. One that is too large is
    refused: queues beyond the bound may hold messages, which a smaller number would hide.
    """
    if found > QUEUE_NUMS_MAX:
        raise RemoteProtocolError(f"{path[:200]}: expected 0 to {QUEUE_NUMS_MAX}, found {found}")
    if found < 0:
        notes.value(path, found, f"0 to {QUEUE_NUMS_MAX}", what_counts)
    return max(0, found)


def _topic(name: str, queue_nums: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=perm)


def _own_perm(*, is_enabled: bool) -> int:
    return PERM_INHERIT | (PERM_READ_WRITE if is_enabled else 0)


def _is_queue_without_topic(topic: str) -> bool:
    """Whether a queue has no topic in RocketMQ either: half messages, light queues, illegal names."""
    if topic in SYSTEM_TOPICS or topic.startswith((SYSTEM_TOPIC_PREFIX, LMQ_PREFIX)):
        return True
    try:
        check_topic_name(topic)
    except RequestError:
        return True
    return False
