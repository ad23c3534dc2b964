"""Table of consumer offsets, persisted in ``consumerOffset.json``.

It maps ``"topic@group"`` -> queue id -> the next queue offset. Rule: the broker trusts the consumer, so an offset may
go back or past the queue's end; the last commit wins. The file is written every ``flushConsumerOffsetInterval`` and at
shutdown: messages committed after the last write are consumed again after a crash.

With ``enableLmq`` a group whose name begins with ``%LMQ%`` has one offset per topic, whatever the queue, and the whole
table is in ``lmqConsumerOffset.json``::

    "lmqOffsetTable":{"%LMQ%one@%LMQ%group":4},  "offsetTable":{"TopicA@G":{0:4}}

Compatibility: ``ConsumerOffsetManager`` and ``LmqConsumerOffsetManager`` (4.9.8) and their files, with integer keys
that are not JSON. When enableLmq is switched on, RocketMQ starts without offsets; here the other file's are loaded.

A topic's offsets go with the topic (:mod:`.deleted_topics`): those of one that is made again count other messages.

Two listeners rely on ``on_change``: a master notes offsets that were set back (:mod:`.offset_resets`), a slave notes
offsets that clients have committed to it (:mod:`rocketpy.broker.replication.offset_differences`).
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes, path_in
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

LMQ_FILE_NAME = "lmqConsumerOffset.json"
_SEPARATOR = "@"
_TABLE, _LIGHT_TABLE = "offsetTable", "lmqOffsetTable"
_FILE_KEYS = (_TABLE, _LIGHT_TABLE, "dataVersion", "groupTopicMap")
"""Of the file; the last two are RocketMQ 5's, and say nothing of an offset."""

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)

GROUPS_OF_TOPICS_MAX = 500_000
"""Bound of the pairs of group and topic that clients can create by committing offsets, which checks neither; pulls need
an existing topic and group. The sum of their queues is bounded by ``consumerOffsetsMax``."""


class ConsumerOffsetManager:
    """The offsets of one broker. With ``enable_lmq`` their file is in the same directory as ``path``.

    A snapshot of hundreds of thousands of pairs is taken every few seconds. It is copy-on-write: it shares each pair's
    offsets with the table, and the first change of a pair after a snapshot copies them for the table.
    """

    def __init__(
        self, *, config: BrokerConfig, path: str, disk: Disk, run_blocking: RunBlocking, enable_lmq: bool = False
    ) -> None:
        self.offset_table: dict[str, dict[int, int]] = {}
        """Read freely; change it only through the methods."""
        self.on_change: Callable[[str, int, int | None, int | None], None] | None = None
        """Listener for changes by requests: ``topic@group``, queue id, the offset before and after; None: no offset."""
        self.is_late: Callable[[str, int, int], bool] | None = None
        """Whether an offset for topic and queue id is one of a topic that was deleted: then it is not stored."""
        self._config = config
        self._unshared: set[str] = set()  # keys whose offsets are not shared with a snapshot
        self._count = 0  # of offsets
        self._groups_of: dict[str, dict[str, None]] = {}  # by topic, in the order of the table
        self._topics_of: dict[str, dict[str, None]] = {}  # by group
        self._enable_lmq = enable_lmq
        self._plain = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)
        self.stored = self._plain
        if enable_lmq:
            self.stored = StoredTable(
                path=os.path.join(os.path.dirname(path), LMQ_FILE_NAME),
                disk=disk,
                run_blocking=run_blocking,
                snapshot=self._snapshot_with_light,
            )

    def load(self) -> None:
        """Load the file into the empty table; StartError when file and backup are malformed.

        When enableLmq has just been switched on, the offsets are still in the file of a broker without it.
        """
        loaded = self.stored.load(_decode_file)
        if loaded is None and self.stored is not self._plain:
            loaded = self._plain.load(_decode_file)
        if loaded is not None:
            self.offset_table = loaded
            self._unshared = set(loaded)
            self._count = sum(map(len, loaded.values()))
            for key in loaded:
                self._index(*split_key(key))

    def has_room_for(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a client's offset may be stored: known queues always, new ones up to the bounds."""
        offsets = self.offset_table.get(topic + _SEPARATOR + group)
        if offsets is not None and queue_id in offsets:
            return True
        if self._count >= self._config.consumer_offsets_max:
            return False
        return offsets is not None or len(self.offset_table) < GROUPS_OF_TOPICS_MAX

    def commit_offset(self, peer: str, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        """Store the next queue offset of ``group`` in a queue; ``peer`` is the client that commits it.

        Nothing is stored for a topic that was deleted meanwhile, see ``is_late``.
        """
        if self._enable_lmq and group.startswith(LMQ_PREFIX):
            queue_id = 0
        if self.is_late is not None and self.is_late(topic, queue_id, consumer_offset):
            return
        key = topic + _SEPARATOR + group
        offsets = self.offset_table.get(key)
        before = None
        if offsets is None:
            offsets = self.offset_table[key] = {}
            self._unshared.add(key)
            self._index(topic, group)
        else:
            before = offsets.get(queue_id)
            if before == consumer_offset:
                return
            if key not in self._unshared:
                offsets = self.offset_table[key] = dict(offsets)
                self._unshared.add(key)
        if before is None:
            self._count += 1
        offsets[queue_id] = consumer_offset
        self.stored.changed()
        if self.on_change is not None:
            self.on_change(key, queue_id, before, consumer_offset)

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next queue offset to consume, -1 when the group has none."""
        if self._enable_lmq and group.startswith(LMQ_PREFIX):
            queue_id = 0
        offsets = self.offset_table.get(topic + _SEPARATOR + group)
        return -1 if offsets is None else offsets.get(queue_id, -1)

    def offsets_of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's offsets in a topic, by queue id."""
        return self.offset_table.get(topic + _SEPARATOR + group, {})

    def clone_offset(self, source_group: str, target_group: str, topic: str) -> None:
        """Replace a group's offsets in a topic by those of another group."""
        offsets = self.offset_table.get(topic + _SEPARATOR + source_group)
        if offsets is not None:
            key = topic + _SEPARATOR + target_group
            before = self.offset_table.get(key, {})
            self.replace(key, offsets)
            self._replaced(key, before, offsets)

    def replace(self, key: str, offsets: Mapping[int, int]) -> None:
        """Set the offsets of ``topic@group``, by queue id; without any it is removed. No listener is called."""
        self._count += len(offsets) - len(self.offset_table.get(key, ()))
        topic, group = split_key(key)
        if offsets:
            self.offset_table[key] = dict(offsets)
            self._unshared.add(key)
            self._index(topic, group)
        elif self.offset_table.pop(key, None) is not None:
            _unindex(self._groups_of, topic, group)
            _unindex(self._topics_of, group, topic)
        self.stored.changed()

    def remove_offset(self, group: str, *, topics: Iterable[str] | None = None) -> None:
        """Remove the offsets of a group in these topics, in all without ``topics``."""
        known = self._topics_of.get(group, {})
        for topic in list(known) if topics is None else [topic for topic in topics if topic in known]:
            self._remove(topic, group)

    def remove_topic(self, topic: str) -> None:
        """Remove the offsets of all groups in a topic."""
        for group in list(self._groups_of.get(topic, ())):
            self._remove(topic, group)

    def which_topic_by_consumer(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return list(self._topics_of.get(group, ()))

    def which_group_by_topic(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return list(self._groups_of.get(topic, ()))

    def snapshot(self) -> dict[str, dict[int, int]]:
        """Return an immutable copy of the table as it is now."""
        self._unshared.clear()
        return dict(self.offset_table)

    def _remove(self, topic: str, group: str) -> None:
        key = topic + _SEPARATOR + group
        before = self.offset_table[key]
        self.replace(key, {})
        self._replaced(key, before, {})

    def _replaced(self, key: str, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """Notify the listener of the queues whose offset differs."""
        if self.on_change is not None:
            for queue_id in before.keys() | after.keys():
                if before.get(queue_id) != after.get(queue_id):
                    self.on_change(key, queue_id, before.get(queue_id), after.get(queue_id))

    def _index(self, topic: str, group: str) -> None:
        self._groups_of.setdefault(topic, {})[group] = None
        self._topics_of.setdefault(group, {})[topic] = None

    def _snapshot(self) -> object:
        return {"offsetTable": self.snapshot()}

    def _snapshot_with_light(self) -> object:
        plain = self.snapshot()
        light = [key for group in self._topics_of if group.startswith(LMQ_PREFIX) for key in self._keys_of(group)]
        light_table = {key: plain.pop(key).get(0, 0) for key in light if key in plain}
        return {"lmqOffsetTable": light_table, "offsetTable": plain}

    def _keys_of(self, group: str) -> list[str]:
        return [topic + _SEPARATOR + group for topic in self._topics_of[group]]


def split_key(key: str) -> tuple[str, str]:
    """Return topic and group of ``topic@group``: a topic cannot contain the separator, a group can."""
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group


def _unindex(index: dict[str, dict[str, None]], name: str, other: str) -> None:
    others = index[name]
    del others[other]
    if not others:
        del index[name]


def decode_offset_table(content: object) -> dict[str, dict[int, int]]:
    """Return the table in a parsed file or answer, by ``topic@group`` and queue id; RemoteProtocolError if malformed.

    It is checked as a whole, so that a damaged file fails the start and not a later pull.
    """
    if not isinstance(content, dict) or not isinstance(content.get(_TABLE), dict):
        raise RemoteProtocolError(f"expected an object with {_TABLE}")
    offset_table = offsets_in(content[_TABLE], _TABLE)
    light = content.get(_LIGHT_TABLE, {})
    if not isinstance(light, dict):
        raise RemoteProtocolError(f"{_LIGHT_TABLE}: expected an object, found {light!r:.200}")
    for key, offset in light.items():
        if not isinstance(key, str):
            raise RemoteProtocolError(f"{_LIGHT_TABLE}: expected offsets by topic and group, found {key!r:.200}")
        offset_table[key] = {0: _integer(offset, _INT64, _LIGHT_TABLE, key)}
    return offset_table


def offsets_in(table: object, where: str) -> dict[str, dict[int, int]]:
    """Return the offsets in one object of a file, whose path is ``where``, by ``topic@group`` and queue id.

    RemoteProtocolError for what is no integer, or one that no peer could read: it would refuse the whole table.
    """
    if not isinstance(table, dict):
        raise RemoteProtocolError(f"{where}: expected an object, found {table!r:.200}")
    found: dict[str, dict[int, int]] = {}
    for key, offsets in table.items():
        if not isinstance(key, str) or not isinstance(offsets, dict):
            raise RemoteProtocolError(f"{where}: expected offsets by queue for {key!r:.200}, found {offsets!r:.200}")
        found[key] = {
            _integer(queue_id, _INT32, where, key): _integer(offset, _INT64, where, key)
            for queue_id, offset in offsets.items()
        }
    return found


def _decode_file(content: object, notes: FileNotes) -> dict[str, dict[int, int]]:
    """Return the table of a file, less what can be no group's offset.

    RocketMQ keeps such entries and never looks at them; here they are left out, with a line. A negative offset stands
    for none in RocketMQ, and stays what it is.
    """
    table = decode_offset_table(content)
    assert isinstance(content, dict)
    notes.unknown_keys(content, _FILE_KEYS)
    light = content.get(_LIGHT_TABLE, {})
    for key, offsets in list(table.items()):
        name = _LIGHT_TABLE if key in light else _TABLE
        if not all(split_key(key)):
            notes.value(path_in(name, key), key, "topic@group", "it is left out")
            del table[key]
            continue
        if offsets and min(offsets) < 0:
            notes.value(path_in(name, key), min(offsets), "the numbers of queues", "negative ones are left out")
            table[key] = {queue_id: offset for queue_id, offset in offsets.items() if queue_id >= 0}
        if offsets and min(offsets.values()) < 0:
            notes.value(path_in(name, key), min(offsets.values()), "offsets of 0 or more", "it counts as no offset")
    return table


def _integer(value: object, bounds: range, where: str, key: str) -> int:
    """Return an integer; a quoted one is accepted, as fastjson does."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is int and value in bounds:
        return value
    raise RemoteProtocolError(
        f"{path_in(where, key)[:200]}: expected an integer of {bounds.stop.bit_length()} bits, found {value!r:.100}"
    )
