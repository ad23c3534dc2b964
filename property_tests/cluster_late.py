"""What must hold of messages that are delivered later than they are sent: delayed ones and those of transactions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from property_tests.cluster_exemptions import may_be_skipped, may_lose
from property_tests.cluster_plan import Decision
from property_tests.cluster_record import Got, History, Sent

DELAYS_S = (1.0, 5.0, 10.0)
"""Of the first levels, as brokers have them by default."""

_RUNS_SECONDS_MAX = 20.0
"""How long a clock runs at another rate."""

_TOLERANCE_S = 0.05
"""Smaller steps of a clock count as none, for brokers too."""


def broken_late(history: History) -> Iterator[str]:
    """Return a line for everything that does not hold."""
    count = Counter(got.number for contents in history.final.values() for got in contents)
    first: dict[int, Got] = {}
    for got in (got for lives in history.got.values() for life in lives for got in life):
        if got.number not in first or got.at < first[got.number].at:
            first[got.number] = got
    for sent in history.sent:
        if sent.delay_level or sent.transaction:
            if count[sent.number] > 1 and not _end_was_forgotten(history, sent):
                yield f"once: {sent}; it is there {count[sent.number]} times"
            if is_due(history, sent) and not count[sent.number]:
                yield f"late: {sent}; it was never delivered"
        seen = first.get(sent.number)
        if sent.delay_level and seen is not None:
            yield from _delayed(history, sent, seen)
        if sent.transaction and (seen is not None or count[sent.number]):
            yield from _decided(sent, None if seen is None else seen.at)


def is_due(history: History, sent: Sent) -> bool:
    """Whether a message must have been delivered in the end, as delayed or as that of a transaction."""
    if sent.broker is None or not (sent.delay_level or sent.transaction) or may_lose(history, sent):
        return False
    if may_be_skipped(history, sent):
        return False
    if sent.transaction is None:
        return True
    return sent.transaction.decision is Decision.COMMIT


# ---- private --------------------------------------------------------------------------------------------------------


def _delayed(history: History, sent: Sent, seen: Got) -> Iterator[str]:
    """It comes no earlier than its delay says, by the clock of its broker: one that is set forward is trusted."""
    steps = _steps(history, seen.queue[0], sent.asked_at, seen.at)
    clock_ahead_s = sum(step_ms for step_ms in steps if step_ms > 0) / 1000
    waited_s, delay_s = seen.at - sent.asked_at, DELAYS_S[sent.delay_level - 1]
    if waited_s + clock_ahead_s < delay_s - _TOLERANCE_S:
        yield f"early: {sent}; it came after {waited_s:.3f} s, its clock gained {clock_ahead_s:g} s"


def _end_was_forgotten(history: History, sent: Sent) -> bool:
    """Whether a transaction's broker may have had no room for the record of its end, and was ended before it had."""
    full_since = [
        history.began_at + each.at_s
        for each in history.plan.operations
        if each.kind in ("fill disk", "delete old files")
        and each.target == sent.broker
        and history.began_at + each.at_s + each.seconds >= sent.asked_at
    ]
    ends = [end.at for end in history.ends if end.broker == sent.broker and not end.is_clean]
    return sent.transaction is not None and any(since <= at for since in full_since for at in ends)


def _decided(sent: Sent, at: float | None) -> Iterator[str]:
    """It is delivered only if its producer has committed it, and not before."""
    assert sent.transaction is not None
    if sent.transaction.decision is not Decision.COMMIT:
        yield f"decided: {sent}; it was delivered"
    elif at is not None and at < sent.transaction.decided_at:
        yield f"decided: {sent}; it was delivered at {at:.3f}"


def _steps(history: History, broker: str, since: float, until: float = math.inf) -> list[int]:
    """Return by how many ms the clock that counts for a message was set; after a promotion that is another one."""
    steps = [(at, step_ms) for at, host, step_ms in history.clock_steps if host.partition("/")[0] == broker]
    if _was_promoted(history, broker, since):
        return [sign * step_ms for _, step_ms in steps for sign in (-1, 1)]
    # A clock that runs at another rate has its whole gain when that begins.
    return [step_ms for at, step_ms in steps if since - _RUNS_SECONDS_MAX <= at <= until]


def _was_promoted(history: History, broker: str, since: float) -> bool:
    return any(name == broker and at >= since for at, name in history.promotions)
