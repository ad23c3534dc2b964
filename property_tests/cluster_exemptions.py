"""Which acknowledged messages of a history may be gone, and which a group may miss: what ``docs/promises.md`` exempts.

The promise is that of the answer to each message, and counts until something has happened to the hosts that had it:

- SEND_OK under SYNC_FLUSH: durable on the master. Everything else is durable on a host that has run for
  ``FLUSHED_SECONDS`` since, has stopped in order, or, under SYNC_FLUSH, was started again: recovery syncs what it has.
- SEND_OK of a SYNC_MASTER: in the log of a slave too. Of other answers the new master has after a change of roles
  what its log had at that moment, no more.
- Files of the log that were deleted, because the disk was nearly full, have what they had; a group that has not read
  it by then goes on from where the log begins.
- With ``haTruncateDivergedLog`` slaves lose what their master has lost, and an old master what the new one never had.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from property_tests.cluster_record import UNCOMMITTED, Got, History, Queue, RoleChange, Sent, TailLoss, has_record
from rocketpy.client.results import SendStatus

FLUSHED_SECONDS = 12.0
"""``flushCommitLogThoroughInterval`` is 10 s; a flush takes some calls of the disk."""

COMMITTED_SECONDS = 1.0
"""``commitIntervalCommitLog`` is 200 ms."""

FAILOVER_SECONDS = 35.0
"""Brokers register every 30 s, and clients go back to a master that they know."""

_DISK_CALLS = 20
_HINDERS_FLUSHING = ("slow disk", "pause", "fill disk", "fail sync", "fail write")

DELIVERED = "delivered, or must be"
MAY_BE_LOST = "may be lost"
GOT_BEFORE_DURABLE = "got another message there before a loss of power"
EXPIRED = "was deleted with its file"
READ_TAIL = "read the tail of an old master while the new one was away"


def may_lose(history: History, sent: Sent) -> bool:
    """Whether an acknowledged message may be gone from the queues of its broker in the end."""
    assert sent.answered_at is not None
    return is_expired(history, sent) or not _Fate(history, sent).is_kept()


def is_expired(history: History, sent: Sent) -> bool:
    """Whether the file of a message is deleted in the end."""
    assert sent.broker is not None
    return 0 <= sent.physical_offset < history.begin_offsets.get(sent.broker, 0)


def may_be_skipped(history: History, sent: Sent) -> bool:
    """Whether some master of a message has deleted its file, though another one may have it still."""
    assert sent.broker is not None
    return 0 <= sent.physical_offset < history.skipped_before.get(sent.broker, 0)


def why_not_delivered(history: History, group: str, sent: Sent) -> str | None:
    """Return what excuses that a group never got a message that is there, None for nothing.

    Its file may have been deleted before. In all other cases it had got another message at the same offset of the
    queue. Either a loss of power has taken that one; in RocketMQ the group does not see the next one either. Or a
    consumer has read the tail of an old master later: a slave serves what it has while there is no master, also one
    that stands with its alarm.
    """
    assert sent.queue is not None
    if may_be_skipped(history, sent):
        return EXPIRED
    others: list[Got] = []
    for life in history.got[group]:
        others += [got for got in life if (got.queue, got.queue_offset) == (sent.queue, sent.queue_offset)]
        if any(_has_lost_since(history, got, sent) for got in others):
            return GOT_BEFORE_DURABLE
        if any(_is_of_tail(history, got, sent) for got in others):
            return READ_TAIL
    return None


def exempt_count(history: History) -> Counter[str]:
    """Count messages that may be lost, and the deliveries of all others: those to groups, and those excused."""
    count: Counter[str] = Counter()
    got = {group: _numbers(lives) for group, lives in history.got.items()}
    for sent in history.sent:
        if sent.broker is None:
            continue
        if is_expired(history, sent):
            count[EXPIRED] += 1
            continue
        if may_lose(history, sent):
            count[MAY_BE_LOST] += 1
            continue
        if sent.queue is None:
            continue
        for group, numbers in got.items():
            is_delivered = (sent.queue, sent.queue_offset, sent.number) in numbers
            count[DELIVERED if is_delivered else why_not_delivered(history, group, sent) or DELIVERED] += 1
    return count


# ---- private --------------------------------------------------------------------------------------------------------


def _numbers(lives: list[list[Got]]) -> set[tuple[Queue, int, int]]:
    return {(got.queue, got.queue_offset, got.number) for life in lives for got in life}


def _has_lost_since(history: History, got: Got, sent: Sent) -> bool:
    """Whether the master has lost its power between the two messages, and may have lost the first one."""
    if got.number == sent.number or got.number >= len(history.sent):
        return False
    other = history.sent[got.number]
    # An attempt without an answer is promised nothing, nor is the delivery of a message that comes late.
    if (other.queue, other.queue_offset) == (got.queue, got.queue_offset) and not may_lose(history, other):
        return False
    assert sent.answered_at is not None
    return any(
        loss.is_power
        and other.asked_at <= loss.at <= sent.answered_at
        and loss.broker == _master(history, got.queue[0], loss.at)
        for loss in history.losses
    )


def _is_of_tail(history: History, got: Got, sent: Sent) -> bool:
    """Whether a group may have got another message from an old master, while the new one was away or just back."""
    name = got.queue[0]
    return (
        got.number != sent.number
        and any(change.name == name and change.at < got.at for change in history.changes)
        and any(
            end.broker.partition("/")[0] == name and end.at <= got.at <= end.at + FAILOVER_SECONDS
            for end in history.ends
        )
        and not any(
            (each.queue_offset, each.number) == (got.queue_offset, got.number)
            for each in history.final.get(got.queue, ())
        )
    )


def _master(history: History, name: str, at: float) -> str:
    master = name
    for change in history.changes:
        if change.name == name and change.at < at:
            master = change.new_master
    return master


class _Fate:
    """What became of one message, on each host of its broker's name."""

    def __init__(self, history: History, sent: Sent) -> None:
        assert sent.broker is not None
        assert sent.answered_at is not None
        self._history = history
        self._sent = sent
        self._name = sent.broker
        self._began_at = sent.asked_at if sent.attempted_at is None else sent.attempted_at
        self._master = _master(history, self._name, self._began_at)
        self._had_since = {self._master: sent.answered_at}
        """The hosts that have it for sure, and since when."""
        is_ok = sent.status is SendStatus.SEND_OK
        self._is_synced_on = self._master if history.plan.is_sync_flush and is_ok else ""
        self._is_on_slave = history.plan.is_sync_master and is_ok
        """Whether that of the slaves which has most has it."""

    def is_kept(self) -> bool:
        for event in self._events():
            if isinstance(event, TailLoss):
                self._lose(event)
            else:
                self._change(event)
        return self._master in self._had_since

    def _events(self) -> list[TailLoss | RoleChange]:
        events: list[TailLoss | RoleChange] = []
        events += [each for each in self._history.losses if each.broker.partition("/")[0] == self._name]
        events += [each for each in self._history.changes if each.name == self._name]
        return sorted((each for each in events if each.at >= self._began_at), key=lambda each: each.at)

    def _lose(self, loss: TailLoss) -> None:
        since = self._had_since.get(loss.broker, self._sent.answered_at)
        assert since is not None
        needed_s = COMMITTED_SECONDS if loss.what == UNCOMMITTED else FLUSHED_SECONDS
        is_durable = loss.broker == self._is_synced_on or is_flushed(
            self._history, loss.broker, since, loss.at, needed_s
        )
        if loss.is_sync or (loss.is_power and is_durable):
            return
        if loss.broker != self._master:
            self._had_since.pop(loss.broker, None)
            self._is_on_slave = False
        elif self._history.plan.cuts_tails:
            self._had_since.clear()
            self._is_on_slave = False
        else:
            self._had_since.pop(loss.broker, None)

    def _change(self, change: RoleChange) -> None:
        is_there = (self._is_on_slave and change.has_most) or has_record(change.log, self._sent)
        if change.new_master not in self._had_since and is_there:
            self._had_since[change.new_master] = change.at
        if change.new_master not in self._had_since and self._history.plan.cuts_tails:
            self._had_since.clear()
        self._is_on_slave = False
        self._master = change.new_master


def is_flushed(history: History, host: str, since: float, until: float, needed_s: float = FLUSHED_SECONDS) -> bool:
    """Whether what a host had at a moment is durable at another one."""
    ends = [end for end in history.ends if end.broker == host and since <= end.at < until]
    if any(end.is_clean for end in ends):
        return True
    starts = [at for at, broker in history.starts if broker == host and since <= at < until]
    if starts and history.plan.is_sync_flush:
        return True
    needed_s += _DISK_CALLS * history.plan.disk_delay_s
    free_from = since
    for begin, end_at in sorted([*_hindered(history, host), *_down(history, host), (until, math.inf)]):
        if begin - free_from >= needed_s:
            return True
        free_from = max(free_from, end_at)
    return False


def _hindered(history: History, host: str) -> Iterator[tuple[float, float]]:
    for each in history.plan.operations:
        if each.kind in _HINDERS_FLUSHING and each.target == host:
            at = history.began_at + each.at_s
            yield at, at + each.seconds + (3 * each.value if each.kind == "slow disk" else 0.0)


def _down(history: History, host: str) -> Iterator[tuple[float, float]]:
    starts = [at for at, broker in history.starts if broker == host]
    for end in history.ends:
        if end.broker == host:
            yield end.at, min((at for at in starts if at > end.at), default=math.inf)
