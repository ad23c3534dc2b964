"""What must hold in every history of a cluster, by what its clients were told alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from property_tests.cluster_history import Got, History, Queue, Sent
from rocketpy.client.results import SendStatus

ATTEMPTS_MAX = 3
"""A producer sends a message once, and twice more when it does not hear of it."""


def broken_promises(history: History) -> list[str]:
    """Return a line for everything that does not hold; none if all is well."""
    return [
        *_acknowledged_is_kept(history),
        *_queues_are_whole(history),
        *_only_what_was_sent(history),
        *_order_of_a_producer(history),
        *_statuses(history),
        *_consumed(history),
        *_healed(history),
    ]


def may_lose(history: History, sent: Sent) -> bool:
    """Whether an acknowledged message may be gone: its broker lost what was not flushed after it was answered."""
    assert sent.queue is not None
    assert sent.answered_at is not None
    if history.plan.is_sync_flush and sent.status is SendStatus.SEND_OK:
        return False
    return any(broker == sent.queue[0] and at >= sent.asked_at for at, broker in history.tail_losses)


def _acknowledged_is_kept(history: History) -> Iterator[str]:
    """It is there, at its queue offset."""
    for sent in history.sent:
        if sent.queue is None or may_lose(history, sent):
            continue
        there = [got for got in history.final.get(sent.queue, ()) if got.queue_offset == sent.queue_offset]
        if [got.number for got in there] != [sent.number]:
            found = ", ".join(map(str, there)) or "nothing"
            yield f"kept: {sent}; found there: {found}"


def _queues_are_whole(history: History) -> Iterator[str]:
    """Offsets of a queue begin at 0 and have no gap."""
    for queue, contents in history.final.items():
        offsets = [got.queue_offset for got in contents]
        if offsets != list(range(len(offsets))):
            yield f"whole: {queue} has the offsets {offsets}"


def _only_what_was_sent(history: History) -> Iterator[str]:
    """No message that was not sent, none more often than it was."""
    count = Counter(got.number for contents in history.final.values() for got in contents)
    for number, times in count.items():
        if number >= len(history.sent):
            yield f"sent: #{number} was never sent"
        elif times > ATTEMPTS_MAX:
            yield f"sent: #{number} is there {times} times"
    for got in (got for contents in history.final.values() for got in contents):
        if got.body.rstrip(b"x") != b"%d " % got.number:
            yield f"sent: {got} has another body than was sent: {got.body[:40]!r}"


def _order_of_a_producer(history: History) -> Iterator[str]:
    """In a queue the acknowledged messages of a producer are in the order in which they were sent."""
    last: dict[tuple[str, str, int], Sent] = {}
    for sent in history.sent:
        if sent.queue is None or may_lose(history, sent):
            continue
        key = (sent.producer, *sent.queue)
        before = last.get(key)
        if before is not None and before.queue_offset >= sent.queue_offset:
            yield f"order: {before}, and later {sent}"
        last[key] = sent


def _statuses(history: History) -> Iterator[str]:
    """Without slaves nothing waits for one; only SYNC_FLUSH waits for the disk."""
    expected = (
        {SendStatus.SEND_OK, SendStatus.FLUSH_DISK_TIMEOUT} if history.plan.is_sync_flush else {SendStatus.SEND_OK}
    )
    for sent in history.sent:
        if sent.status is not None and sent.status not in expected:
            yield f"status: {sent}"


def _consumed(history: History) -> Iterator[str]:
    """Each group gets each acknowledged message that is kept, and the messages of a queue in order.

    A group that had got a message before it was durable has gone past its queue offset: it never sees another message
    that takes this offset after a loss of power. In RocketMQ it does not either.
    """
    for group, lives in history.got.items():
        numbers: dict[tuple[Queue, int], set[int]] = {}
        for got in (got for life in lives for got in life):
            numbers.setdefault((got.queue, got.queue_offset), set()).add(got.number)
        for sent in history.sent:
            if sent.queue is None or may_lose(history, sent):
                continue
            if not numbers.get((sent.queue, sent.queue_offset)):
                yield f"delivered: {group} never got: {sent}"
        for life in lives:
            yield from (f"in order: {group} got {text}" for text in _disorder(history, life))


def _disorder(history: History, life: list[Got]) -> Iterator[str]:
    shaken = {broker for _, broker in history.tail_losses}
    last: dict[tuple[str, int], Got] = {}
    for got in life:
        before = last.get(got.queue)
        if before is not None and got.queue[0] not in shaken and got.queue_offset != before.queue_offset + 1:
            yield f"{got} after {before}"
        last[got.queue] = got


def _healed(history: History) -> Iterator[str]:
    """After the faults every producer reaches every broker again, and every group reads every queue."""
    if not history.is_healed:
        yield "healed: after the faults not every producer reached every broker, or not every group read every queue"
