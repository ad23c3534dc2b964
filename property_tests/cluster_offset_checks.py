"""What must hold of the progress of consumer groups: it falls only by a reset, and a reset is not undone.

A broker's offset of a queue is known from the answers to commits and from those to an observer. It may be lower later

- after a commit of a lower offset, by a consumer that began again or by an operator, that may have arrived in between.
  Slaves follow resets of their masters some time later;
- if the broker was killed so soon that the offset was not written yet (``flushConsumerOffsetInterval``);
- after a promotion: the new master has what its slave knew, and an old one whose tail is cut takes that. A slave cuts
  its tail after its master has lost power, too;
- after a start, if the queue ends before it: it stood for messages of another log.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import attrs

from property_tests.cluster_plan import Operation
from property_tests.cluster_record import Commit, History

WRITTEN_SECONDS = 8.0
"""Offsets are written every 5 s; writing takes some calls of the disk."""

WARNING_RATIO = 0.9
"""``diskSpaceWarningLevelRatio``: from there on the rest may be too little for a table."""

_DISK_CALLS = 20
_HINDERS_WRITING = ("fill disk", "slow disk", "pause", "fail sync", "fail write")

NONE = -1
"""The offset of a group that has none."""

Key = tuple[str, int]
"""A group, a queue id."""


@attrs.frozen
class _Seen:
    """What a broker had at a moment between two others."""

    since: float
    until: float
    offset: int


def broken_offsets(history: History) -> Iterator[str]:
    """Return a line for everything that does not hold."""
    for broker in history.plan.brokers:
        seen = _seen(history, broker)
        for key, observed in _observed(history, broker).items():
            fallen = (line for now in observed for line in _fallen(history, broker, key, seen[key], now))
            yield from itertools.islice(fallen, 1)
        yield from _undone(history, broker)


def _observed(history: History, broker: str) -> dict[Key, list[_Seen]]:
    found: dict[Key, list[_Seen]] = defaultdict(list)
    keys = {(each.group, each.queue[1]): None for each in history.commits}
    for each in history.offsets:
        if each.broker == broker:
            for key in keys:
                found[key].append(_Seen(each.asked_at, each.answered_at, each.of_queues.get(key, NONE)))
    return found


def _seen(history: History, broker: str) -> dict[Key, list[_Seen]]:
    """Return what was observed and what commits were answered, in order."""
    found = _observed(history, broker)
    for commit in history.commits:
        if commit.broker == broker and commit.answered_at is not None:
            seen = _Seen(commit.asked_at, commit.answered_at, commit.consumer_offset)
            found[commit.group, commit.queue[1]].append(seen)
    for each in found.values():
        each.sort(key=lambda one: one.until)
    return found


def _fallen(history: History, broker: str, key: Key, seen: list[_Seen], now: _Seen) -> Iterator[str]:
    for before in seen:
        if before.until > now.since:
            return
        if before.offset <= now.offset or not _must_have(history, broker, before, now.until):
            continue
        if _was_fitted(history, broker, key[1], before, now):
            continue
        if not any(_explains(history, commit, before, now) for commit in _commits(history, broker, key)):
            yield (
                f"offsets: {broker} had {before.offset} for {key[0]} in queue {key[1]} at {before.until:.3f}, "
                f"and {now.offset} at {now.until:.3f}"
            )
            return


def _must_have(history: History, broker: str, before: _Seen, until: float) -> bool:
    """Whether a broker must still have what it had before."""
    name = broker.partition("/")[0]
    if any(promoted == name and before.since <= at <= until for at, promoted in history.promotions):
        return False
    parted = [*history.promotions, *((at, lost.partition("/")[0]) for at, lost in history.tail_losses)]
    if broker in history.cut_tails and any(of == name and at <= until for at, of in parted):
        return False
    is_hindered = any(_hinders_writing(each) and each.target == broker for each in history.plan.operations)
    written_s = WRITTEN_SECONDS + _DISK_CALLS * history.plan.disk_delay_s
    ends = [end for end in history.ends if end.broker == broker and before.since <= end.at <= until]
    return not any(
        is_hindered or (not end.is_clean and (end.is_wiped or end.at - before.until <= written_s)) for end in ends
    )


def _hinders_writing(operation: Operation) -> bool:
    """Whether a broker may be unable to write its tables: a disk of which old files are deleted may have no room."""
    is_full = operation.kind == "delete old files" and operation.value > WARNING_RATIO
    return operation.kind in _HINDERS_WRITING or is_full


def _was_fitted(history: History, broker: str, queue_id: int, before: _Seen, now: _Seen) -> bool:
    """Whether the broker was started meanwhile with a queue that ended below the offset, and set it back to there."""
    return any(
        queue_id in each.ends and each.ends[queue_id] < before.offset and each.ends[queue_id] <= now.offset
        for each in history.offsets
        if each.broker == broker and before.until <= each.asked_at <= now.until
    )


def _commits(history: History, broker: str, key: Key) -> list[Commit]:
    name = broker.partition("/")[0]
    return [each for each in history.commits if (each.group, *each.queue) == (key[0], name, key[1])]


def _explains(history: History, commit: Commit, before: _Seen, now: _Seen) -> bool:
    """Whether a commit may be why an offset fell."""
    if commit.consumer_offset > now.offset or commit.asked_at > now.until:
        return False
    if commit.answered_at is None or commit.answered_at >= before.since:
        return True
    return history.plan.has_slaves and _sets_back(history, commit)


def _sets_back(history: History, commit: Commit) -> bool:
    return commit.is_reset or any(
        each.consumer_offset > commit.consumer_offset and each.asked_at <= commit.asked_at
        for each in history.commits
        if (each.group, each.queue) == (commit.group, commit.queue)
    )


def _undone(history: History, broker: str) -> Iterator[str]:
    """After a reset the offset is higher only if the group has committed that."""
    for reset in history.commits:
        if not reset.is_reset or reset.broker != broker or reset.answered_at is None:
            continue
        key = (reset.group, reset.queue[1])
        before = _Seen(reset.asked_at, reset.answered_at, reset.consumer_offset)
        commits = _commits(history, broker, key)
        for now in _observed(history, broker)[key]:
            if now.since < reset.answered_at or now.offset <= reset.consumer_offset:
                continue
            is_committed = any(
                each.consumer_offset >= now.offset and (each.answered_at is None or each.answered_at >= reset.asked_at)
                for each in commits
                if each.asked_at <= now.until
            )
            if not is_committed and _must_have(history, broker, before, now.until):
                yield f"reset: {reset}; {broker} had {now.offset} at {now.until:.3f}"
                break
