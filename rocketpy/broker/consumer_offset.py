"""How far each group has consumed each queue: ``consumerOffset.json``.

One table, ``"topic@group"`` -> queue id -> the next queue offset. Rule: the broker believes the consumer, so an offset
may go back or beyond the end; the last commit counts. Written every ``flushConsumerOffsetInterval`` and at the end:
what was committed after the last write is consumed again after a crash.

With ``enableLmq`` a group whose name begins with ``%LMQ%`` has one offset a topic, whatever the queue, and everything
is in ``lmqConsumerOffset.json``::

    "lmqOffsetTable":{"%LMQ%one@%LMQ%group":4},  "offsetTable":{"TopicA@G":{0:4}}

Compatibility: ``ConsumerOffsetManager`` and ``LmqConsumerOffsetManager`` (4.9.8) and their files, with integer keys
that are not JSON. RocketMQ begins with no offsets at all when enableLmq is switched on; here with the other file's.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from rocketpy.broker.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.runner import RunBlocking
from rocketpy.store.disk import Disk

LMQ_FILE_NAME = "lmqConsumerOffset.json"
_SEPARATOR = "@"

GROUPS_OF_TOPICS_MAX = 500_000
"""Pairs of a group and a topic that clients may make up by committing offsets; pulls need a topic and a group first."""

QUEUES_MAX = 65_536
"""Queues of such a pair; no topic has more."""


class ConsumerOffsetManager:
    """The offsets of one broker. With ``enable_lmq`` their file stands beside ``path``."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking, enable_lmq: bool = False) -> None:
        self.offset_table: dict[str, dict[int, int]] = {}
        """Read freely; change it only through the methods."""
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
        """Read the file into the empty table; StartError when neither it nor its backup makes sense.

        Where light queues are new, the offsets of the others are in the file of a broker without them.
        """
        loaded = self.stored.load(_decode)
        if loaded is None and self.stored is not self._plain:
            loaded = self._plain.load(_decode)
        if loaded is not None:
            self.offset_table = loaded

    def has_room_for(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether an offset that clients bring may be kept: known ones always, new ones up to a bound."""
        offsets = self.offset_table.get(topic + _SEPARATOR + group)
        if offsets is None:
            return len(self.offset_table) < GROUPS_OF_TOPICS_MAX
        return queue_id in offsets or len(offsets) < QUEUES_MAX

    def commit_offset(self, peer: str, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        """Remember where ``group`` goes on in a queue; ``peer`` is who says so."""
        if self._enable_lmq and group.startswith(LMQ_PREFIX):
            queue_id = 0
        key = topic + _SEPARATOR + group
        offsets = self.offset_table.get(key)
        if offsets is None:
            offsets = self.offset_table[key] = {}
        elif offsets.get(queue_id) == consumer_offset:
            return
        offsets[queue_id] = consumer_offset
        self.stored.changed()

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next queue offset to consume, -1 when the group has none."""
        if self._enable_lmq and group.startswith(LMQ_PREFIX):
            queue_id = 0
        offsets = self.offset_table.get(topic + _SEPARATOR + group)
        return -1 if offsets is None else offsets.get(queue_id, -1)

    def offsets_of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the next queue offset of each queue of a topic in which a group has one."""
        return self.offset_table.get(topic + _SEPARATOR + group, {})

    def clone_offset(self, source_group: str, target_group: str, topic: str) -> None:
        """Let a group go on where another one is in a topic; what it had there itself is forgotten."""
        offsets = self.offset_table.get(topic + _SEPARATOR + source_group)
        if offsets is not None:
            self.offset_table[topic + _SEPARATOR + target_group] = dict(offsets)
            self.stored.changed()

    def remove_offset(self, group: str) -> None:
        """Forget all offsets of a group."""
        keys = [key for key in self.offset_table if _split(key)[1] == group]
        for key in keys:
            del self.offset_table[key]
        if keys:
            self.stored.changed()

    def which_topic_by_consumer(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return [topic for topic, owner in map(_split, self.offset_table) if owner == group]

    def which_group_by_topic(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return [group for of_topic, group in map(_split, self.offset_table) if of_topic == topic]

    def _snapshot(self) -> object:
        return {"offsetTable": {key: dict(offsets) for key, offsets in self.offset_table.items()}}

    def _snapshot_with_light(self) -> object:
        plain: dict[str, dict[int, int]] = {}
        light: dict[str, int] = {}
        for key, offsets in self.offset_table.items():
            if _split(key)[1].startswith(LMQ_PREFIX):
                light[key] = offsets.get(0, 0)
            else:
                plain[key] = dict(offsets)
        return {"lmqOffsetTable": light, "offsetTable": plain}


def _split(key: str) -> tuple[str, str]:
    """Split at the first separator: a topic cannot contain it, a group can."""
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group


def _decode(content: object) -> dict[str, dict[int, int]]:
    """Check what was read, so that a damaged file is found out at start and not in the middle of a pull."""
    table = content.get("offsetTable") if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError("expected an object with offsetTable")
    offset_table: dict[str, dict[int, int]] = {}
    for key, offsets in table.items():
        if not isinstance(key, str) or not isinstance(offsets, dict):
            raise RemoteProtocolError(f"offsetTable: expected offsets by queue for {key!r}, found {offsets!r}")
        offset_table[key] = {_integer(queue): _integer(offset) for queue, offset in offsets.items()}
    light = content.get("lmqOffsetTable", {}) if isinstance(content, dict) else None
    if not isinstance(light, dict):
        raise RemoteProtocolError(f"lmqOffsetTable: expected an object, found {light!r}")
    for key, offset in light.items():
        if not isinstance(key, str):
            raise RemoteProtocolError(f"lmqOffsetTable: expected offsets by topic and group, found {key!r}")
        offset_table[key] = {0: _integer(offset)}
    return offset_table


def _integer(value: object) -> int:
    """An integer, or the quoted one that fastjson takes too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise RemoteProtocolError(f"offsetTable: expected an integer, found {value!r}")
