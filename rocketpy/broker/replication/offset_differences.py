"""Rules for the consumer offsets of a slave, and the offsets in which it differs from its master on purpose.

Consumers commit to a slave while there is no master. RocketMQ's slave overwrites those offsets with the older ones of
the master that returns (rocketmq#1094). Here an offset falls on a slave only if it was set back on the master:

======================================  ===============================================================================
what the master has                     what the slave does
======================================  ===============================================================================
the same or a higher offset             takes it
less than at the last synchronization,  takes it, or removes its own: a client or an operator has set the group back.
or none, in the same run                Commits to the slave before that are void
less, in another run                    keeps its own: the master may have lost its last commits in a crash
less, and answers that a reset has      takes it, or removes its own
revoked what is brought home
less, but not less than at the last     keeps its own, which a client has committed to the slave
synchronization
======================================  ===============================================================================

A *run* of the master is known by its ``bootTimestamp``. Only an offset that a client has committed to this slave is
brought home, that is, committed to the master in turn; one that was kept because the master has lost it is not. With it
goes how long ago that commit was, and a master of ours does not take it if a reset came after it
(:mod:`rocketpy.broker.metadata.offset_resets`). So a reset during the last seconds of a master's run, or the first ones
of the next, is not undone on the master: the slave keeps its offset until it has brought it home or the master has
revoked it, and one that no client has committed to it until the master's offset passes it or falls again.

The differences are few, and are persisted in ``slaveOffsets.json``, which a master ignores::

    {"commitTimestamps":{"T@G":{0:1700000009000}},"committedOffsets":{"T@G":{0:12}},
     "masterBootTimestamp":1700000000000,"masterOffsets":{"T@G":{0:7}}}

With ``"logWasCut":true`` the slave has none that it would keep: the log was cut since, and its own offsets may stand
for what it had there. The next synchronization takes all of the master's, and keeps only those of which it has none.

``masterOffsets`` are the master's offsets at the last synchronization, -1 for none, where they differ from the slave's.
Elsewhere the slave's own offset is that of the master.

Compatibility: ``SlaveSynchronize.syncConsumerOffset`` (4.9.8) takes every offset of the master, and never removes one.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.metadata.offsets import offsets_in
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

NONE = -1
"""The offset of a queue in which a group has none."""

_RUN = "masterBootTimestamp"
_MASTER = "masterOffsets"
_COMMITTED = "committedOffsets"
_TIMES = "commitTimestamps"
_CUT = "logWasCut"

OffsetTable = Mapping[str, Mapping[int, int]]
"""Consumer offsets by ``topic@group`` and queue id."""


@attrs.define(eq=False)
class _Difference:
    master_offset: int  # at the last synchronization; NONE when the master had none
    committed_offset: int | None = None  # the last one that a client has committed to this slave
    committed_at: int | None = None  # a moment; None if it is not known
    is_revoked: bool = False  # by a reset that the master has told


@attrs.frozen
class CommittedOffset:
    """An offset that a client has committed to a slave, and that its master does not have."""

    key: str
    queue_id: int
    consumer_offset: int
    committed_at: int | None  # a moment; None if it is not known


class OffsetDifferences:
    """The differences of one slave. A bound of their number is that of consumer offsets (``consumerOffsetsMax``)."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking, ages: Ages) -> None:
        self._ages = ages
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)
        self._master_run: int | None = None
        self._has_followed = False
        self._is_cut = False  # since the last synchronization
        self._table: dict[str, dict[int, _Difference]] = {}

    def load(self) -> None:
        """Read the file into the empty table; StartError when file and backup are malformed."""
        loaded = self.stored.load(_decode)
        if loaded is not None:
            self._master_run, self._table, self._is_cut = loaded
            for differences in self._table.values():
                for each in differences.values():
                    if each.committed_at is not None:
                        each.committed_at = self._ages.moment_ms(each.committed_at)
            self._has_followed = True

    def committed(self, key: str, queue_id: int, before: int | None, after: int | None) -> None:
        """Note a client's commit to this slave: a listener of ConsumerOffsetManager."""
        if after is None:
            self._drop(key, queue_id)
            return
        difference = self._table.setdefault(key, {}).get(queue_id)
        if difference is None:
            difference = self._table[key][queue_id] = _Difference(NONE if before is None else before)
        difference.committed_offset, difference.committed_at = after, self._ages.now_ms()
        difference.is_revoked = False
        self.stored.changed()

    def revoked(self, committed: CommittedOffset) -> None:
        """Note that the master has revoked an offset: the group takes the master's, unless it has committed since."""
        difference = self._table.get(committed.key, {}).get(committed.queue_id)
        if difference is not None and difference.committed_at == committed.committed_at:
            difference.is_revoked = difference.committed_offset == committed.consumer_offset

    def ago_ms(self, committed: CommittedOffset) -> int | None:
        """Return how long ago a client has committed an offset, None if that is not known."""
        return None if committed.committed_at is None else self._ages.ago_ms(committed.committed_at)

    @property
    def committed_offsets(self) -> dict[str, dict[int, int]]:
        """The offsets that clients have committed to this slave, and that are not known to be the master's."""
        found: dict[str, dict[int, int]] = {}
        for key, differences in self._table.items():
            of_queues = {queue_id: each.committed_offset for queue_id, each in differences.items()}
            found[key] = {queue_id: offset for queue_id, offset in of_queues.items() if offset is not None}
        return found

    def log_was_cut(self) -> None:
        """Forget all differences: own offsets may stand for what was cut. The master's count from the next time on."""
        self._table.clear()
        self._is_cut = True
        self.stored.changed()

    @property
    def has_followed(self) -> bool:
        """Whether this broker has taken a master's offsets, in this life or an earlier one."""
        return self._has_followed

    def is_same_run(self, master_run: int | None) -> bool:
        """Whether the master has not been started again since the last synchronization; False when it is not known."""
        return master_run is not None and master_run == self._master_run

    def to_bring_home(self, own: OffsetTable, master: OffsetTable, *, is_same_run: bool) -> list[CommittedOffset]:
        """Return the offsets that clients have committed to this slave, and that the master has to take."""
        found: list[CommittedOffset] = []
        for key, differences in self._table.items():
            for queue_id, difference in differences.items():
                own_offset = own.get(key, {}).get(queue_id, NONE)
                master_offset = master.get(key, {}).get(queue_id, NONE)
                is_reset = is_same_run and master_offset < difference.master_offset
                if own_offset == difference.committed_offset and own_offset > master_offset and not is_reset:
                    found.append(CommittedOffset(key, queue_id, own_offset, difference.committed_at))
        return found

    def settle(
        self, key: str, own: Mapping[int, int], master: Mapping[int, int], *, is_same_run: bool
    ) -> dict[int, int]:
        """Return the slave's new offsets for ``topic@group``, by the rules of this module."""
        if own == master and key not in self._table:
            return dict(master)
        if self._is_cut:
            return {**own, **master}
        settled = {
            queue_id: self._settle_one(
                key, queue_id, own.get(queue_id, NONE), master.get(queue_id, NONE), is_same_run=is_same_run
            )
            for queue_id in own.keys() | master.keys()
        }
        return {queue_id: offset for queue_id, offset in settled.items() if offset != NONE}

    def synchronized(self, master_run: int | None) -> None:
        """Set the run whose offsets have been taken, None for an unknown one."""
        if master_run != self._master_run or not self._has_followed or self._is_cut:
            self._master_run, self._has_followed, self._is_cut = master_run, True, False
            self.stored.changed()

    @property
    def count(self) -> int:
        """The number of queues in which a group's offset differs."""
        return sum(map(len, self._table.values()))

    # ---- private --------------------------------------------------------------------------------------------------

    def _settle_one(self, key: str, queue_id: int, own: int, master: int, *, is_same_run: bool) -> int:
        difference = self._table.get(key, {}).get(queue_id)
        at_last = own if difference is None else difference.master_offset
        is_revoked = difference is not None and difference.is_revoked
        if master >= own or is_revoked or (is_same_run and master < at_last):
            self._drop(key, queue_id)
            return master
        if difference is None:
            difference = self._table.setdefault(key, {})[queue_id] = _Difference(NONE)
            self.stored.changed()
        if difference.master_offset != master:
            difference.master_offset = master
            self.stored.changed()
        return own

    def _drop(self, key: str, queue_id: int) -> None:
        differences = self._table.get(key)
        if differences is None or differences.pop(queue_id, None) is None:
            return
        if not differences:
            del self._table[key]
        self.stored.changed()

    def _snapshot(self) -> object:
        times: dict[str, dict[int, int]] = {}
        master: dict[str, dict[int, int]] = {}
        for key, differences in self._table.items():
            master[key] = {queue_id: each.master_offset for queue_id, each in differences.items()}
            moments = {queue_id: each.committed_at for queue_id, each in differences.items()}
            times[key] = {each: self._ages.timestamp_ms(at) for each, at in moments.items() if at is not None}
        run = NONE if self._master_run is None else self._master_run
        content: dict[str, object] = {_TIMES: times, _COMMITTED: self.committed_offsets, _RUN: run, _MASTER: master}
        return {**content, _CUT: True} if self._is_cut else content


def _decode(content: object, notes: FileNotes) -> tuple[int | None, dict[str, dict[int, _Difference]], bool]:
    """Return the content of a file, with wall times for moments."""
    if not isinstance(content, dict):
        raise RemoteProtocolError(f"expected an object with {_MASTER}")
    run = content.get(_RUN)
    if not isinstance(run, int) or isinstance(run, bool):
        raise RemoteProtocolError(f"{_RUN}: expected a number, found {run!r}")
    is_cut = content.get(_CUT, False)
    if not isinstance(is_cut, bool):
        raise RemoteProtocolError(f"{_CUT}: expected true or false, found {is_cut!r:.100}")
    notes.unknown_keys(content, (_RUN, _MASTER, _COMMITTED, _TIMES, _CUT))
    master = offsets_in(content.get(_MASTER), _MASTER)
    committed = offsets_in(content.get(_COMMITTED), _COMMITTED)
    times = offsets_in(content.get(_TIMES, {}), _TIMES)
    table = {
        key: {
            queue_id: _Difference(offset, committed.get(key, {}).get(queue_id), times.get(key, {}).get(queue_id))
            for queue_id, offset in offsets.items()
        }
        for key, offsets in master.items()
    }
    return (None if run == NONE else run), table, is_cut
