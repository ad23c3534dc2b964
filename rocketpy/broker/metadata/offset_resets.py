"""Offsets that were set back or removed on this broker, persisted in ``offsetResets.json``.

::

    {"offsetResets":{"TopicA@GroupA":{0:120,1:96}},"resetTimestamps":{"TopicA@GroupA":{0:1700000000000}}}

A master that starts takes higher offsets from its slaves, because consumers commit to slaves while there is no master
(:mod:`rocketpy.broker.replication.offsets_from_slaves`). A slave that has not heard of a reset still has the offset
from before it. The table holds, by ``topic@group`` and queue id, the highest offset that a reset has revoked, and when
the last one was. Rule:

==================================================  ===================================================================
an offset of a slave                                counts
==================================================  ===================================================================
that a client has committed to the slave            if the commit came after the reset, whether it is higher than what
                                                    the master had or not: the master may never have known it
any other one, or where one of the times is not     above what was revoked: the group has passed it since
known
==================================================  ===================================================================

The order of the two is known by their ages, see :mod:`.ages`. One that does not count is revoked too. An entry is
dropped when the group itself commits an offset above it, and when topic and group have both gone
(:mod:`.gone_groups`).

A commit of a lower offset is a reset, whoever sends it: RocketMQ's tools reset a group by UPDATE_CONSUMER_OFFSET too.
One that does not lower what this master has is like a commit of the group, and no reset, whatever a slave has.
The table is bounded: beyond ``OFFSET_RESETS_MAX`` groups of topics the one whose first reset is oldest is forgotten,
and an old offset of a slave may then undo it.

Compatibility: RocketMQ (4.9.8) has no such file, takes no offsets from slaves, and ignores the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.metadata.offsets import offsets_in
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

OFFSET_RESETS_MAX = 100_000
"""Bound of the pairs of topic and group that have a reset."""

UNCERTAIN_MS = 1000
"""A commit to a slave counts as one before the reset unless it is younger by more: its age is that at the slave, before
the request was on its way."""

_KEY, _TIMES = "offsetResets", "resetTimestamps"


class OffsetResets:
    """The revoked offsets of one broker.

    A snapshot shares each pair's offsets with the table; the first change of a pair after a snapshot copies them.
    """

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking, ages: Ages) -> None:
        self._ages = ages
        self._revoked: dict[str, dict[int, int]] = {}  # the oldest pair first
        self._unshared: set[str] = set()  # keys whose offsets are not shared with a snapshot
        self._reset_at: dict[str, dict[int, int]] = {}  # moments; none of a queue that an older version has written
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Read the file into the empty table; StartError when file and backup are malformed."""
        loaded = self.stored.load(_decode)
        if loaded is not None:
            self._revoked, timestamps = loaded
            for key, of_queues in timestamps.items():
                self._reset_at[key] = {each: self._ages.moment_ms(at) for each, at in of_queues.items()}

    def changed(self, key: str, queue_id: int, before: int | None, after: int | None) -> None:
        """Note a change of an offset by a request: a listener of ConsumerOffsetManager."""
        if before is not None and (after is None or after < before):
            self._revoke(key, queue_id, before)
            self._reset_at.setdefault(key, {})[queue_id] = self._ages.now_ms()
            self.stored.changed()
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

    def revokes(self, key: str, queue_id: int, offset: int, committed_ago_ms: int | None) -> bool:
        """Whether an offset of a slave does not count; then later ones up to it do not either.

        ``committed_ago_ms`` is how long ago a client has committed it to the slave, None if that is not known.
        """
        revoked_offset = self.revoked_offset(key, queue_id)
        if revoked_offset < 0:
            return False
        reset_at = self._reset_at.get(key, {}).get(queue_id)
        if committed_ago_ms is None or reset_at is None:
            return offset <= revoked_offset
        if committed_ago_ms + UNCERTAIN_MS < self._ages.ago_ms(reset_at):
            return False
        self._revoke(key, queue_id, offset)
        return True

    # ---- private --------------------------------------------------------------------------------------------------

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
            self._reset_at.get(key, {}).pop(queue_id, None)
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
        self._reset_at.pop(key, None)

    def _snapshot(self) -> object:
        self._unshared.clear()
        begin_ms = self._ages.timestamp_ms(0)  # wall time of the moment 0
        timestamps = {
            key: {queue_id: begin_ms + at for queue_id, at in of_queues.items()}
            for key, of_queues in self._reset_at.items()
        }
        return {_KEY: dict(self._revoked), _TIMES: timestamps}


def _decode(content: object, notes: FileNotes) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """Return the revoked offsets, and the wall times of their resets."""
    if not isinstance(content, dict) or _KEY not in content:
        raise RemoteProtocolError(f"expected an object with {_KEY}")
    notes.unknown_keys(content, (_KEY, _TIMES))
    revoked, timestamps = offsets_in(content[_KEY], _KEY), offsets_in(content.get(_TIMES, {}), _TIMES)
    known = {
        key: {queue_id: at for queue_id, at in timestamps.get(key, {}).items() if queue_id in of_queues}
        for key, of_queues in revoked.items()
    }
    return revoked, {key: of_queues for key, of_queues in known.items() if of_queues}
