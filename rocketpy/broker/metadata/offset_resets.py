"""Offsets that were set back or removed on this broker, persisted in ``offsetResets.json``.

::

    {"offsetResets":{"TopicA@GroupA":{0:120,1:96}}}

A master that starts takes higher offsets from its slaves, because consumers commit to slaves while there is no master
(:mod:`rocketpy.broker.replication.offsets_from_slaves`). A slave that has not heard of a reset still has the offset
from before it. The table holds, by ``topic@group`` and queue id, the highest offset that a reset has revoked. Rule: an
offset of a slave counts only above it. An entry is dropped when the group itself commits an offset above it, and
when topic and group have both gone (:mod:`.gone_groups`).

A commit of a lower offset is a reset, whoever sends it: RocketMQ's tools reset a group by UPDATE_CONSUMER_OFFSET too.
The table is bounded: beyond ``OFFSET_RESETS_MAX`` groups of topics the one whose first reset is oldest is forgotten,
and an old offset of a slave may then undo it.

Compatibility: RocketMQ (4.9.8) has no such file, takes no offsets from slaves, and ignores the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.broker.metadata.offsets import offsets_in
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

OFFSET_RESETS_MAX = 100_000
"""Bound of the pairs of topic and group that have a reset."""

_KEY = "offsetResets"


class OffsetResets:
    """The revoked offsets of one broker.

    A snapshot shares each pair's offsets with the table; the first change of a pair after a snapshot copies them.
    """

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self._revoked: dict[str, dict[int, int]] = {}  # the oldest pair first
        self._unshared: set[str] = set()  # keys whose offsets are not shared with a snapshot
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Read the file into the empty table; StartError when file and backup are malformed."""
        loaded = self.stored.load(_decode)
        if loaded is not None:
            self._revoked = loaded

    def changed(self, key: str, queue_id: int, before: int | None, after: int | None) -> None:
        """Note a change of an offset by a request: a listener of ConsumerOffsetManager."""
        if before is not None and (after is None or after < before):
            self._revoke(key, queue_id, before)
        elif self._revoked and after is not None:
            self._advanced(key, queue_id, after)

    @property
    def table(self) -> Mapping[str, Mapping[int, int]]:
        """The revoked offsets by ``topic@group`` and queue id, to be read."""
        return self._revoked

    def forget(self, key: str) -> None:
        """Drop what was revoked of a pair of topic and group, if anything was."""
        if key in self._revoked:
            self._drop(key)
            self.stored.changed()

    def revoked_offset(self, key: str, queue_id: int) -> int:
        """Return the highest offset that a reset has revoked, -1 for none."""
        return self._revoked.get(key, {}).get(queue_id, -1)

    def _revoke(self, key: str, queue_id: int, before: int) -> None:
        if key not in self._revoked:
            while len(self._revoked) >= OFFSET_RESETS_MAX:
                self._drop(next(iter(self._revoked)))
            self._revoked[key] = {}
            self._unshared.add(key)
        if before > self._revoked[key].get(queue_id, -1):
            self._own(key)[queue_id] = before
            self.stored.changed()

    def _advanced(self, key: str, queue_id: int, after: int) -> None:
        revoked = self._revoked.get(key)
        if revoked is not None and after > revoked.get(queue_id, after):
            revoked = self._own(key)
            del revoked[queue_id]
            if not revoked:
                self._drop(key)
            self.stored.changed()

    def _own(self, key: str) -> dict[int, int]:
        """Return the offsets of a pair, to be changed."""
        if key not in self._unshared:
            self._revoked[key] = dict(self._revoked[key])
            self._unshared.add(key)
        return self._revoked[key]

    def _drop(self, key: str) -> None:
        del self._revoked[key]
        self._unshared.discard(key)

    def _snapshot(self) -> object:
        self._unshared.clear()
        return {_KEY: dict(self._revoked)}


def _decode(content: object, notes: FileNotes) -> dict[str, dict[int, int]]:
    if not isinstance(content, dict) or _KEY not in content:
        raise RemoteProtocolError(f"expected an object with {_KEY}")
    notes.unknown_keys(content, (_KEY,))
    return offsets_in(content[_KEY], _KEY)
