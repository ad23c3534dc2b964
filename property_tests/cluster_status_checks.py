"""What a SYNC_MASTER answers, and when: the statuses of a send that waits for a slave."""

from __future__ import annotations

from collections.abc import Iterator

from property_tests.cluster_plan import is_fault
from property_tests.cluster_record import History, Sent
from rocketpy.client.results import SendStatus

SLAVE_TIMEOUT_S = 1.2
"""``slaveTimeout`` in histories: twice that is shorter than what a client waits for, so that its end is seen."""

RECOVERY_SECONDS = 35.0
"""After a fault has ended: a nameserver knows all brokers after 30 s, a slave connects again some seconds later."""

_TOLERANCE_S = 0.5
_DISK_CALLS = 10


def broken_statuses(history: History) -> Iterator[str]:
    """Return a line for everything that does not hold."""
    expected = {SendStatus.SEND_OK}
    if history.plan.is_sync_flush:
        expected.add(SendStatus.FLUSH_DISK_TIMEOUT)
    if history.plan.is_sync_master:
        expected |= {SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE}
    for sent in history.sent:
        if sent.status is not None and sent.status not in expected:
            yield f"status: {sent}"
        elif sent.status is SendStatus.SLAVE_NOT_AVAILABLE:
            yield from _unavailable(history, sent)
        elif sent.status is SendStatus.FLUSH_SLAVE_TIMEOUT:
            yield from _timed_out(history, sent)


def _unavailable(history: History, sent: Sent) -> Iterator[str]:
    """A slave that nothing hinders is there."""
    name = sent.broker
    assert name is not None
    parts = [at for at, broker in history.tail_losses + history.promotions if broker.partition("/")[0] == name]
    has_settled = sent.asked_at > history.began_at + RECOVERY_SECONDS and not parts
    if has_settled and not _is_disturbed(history, sent, history.plan.hosts_of(name)):
        yield f"status: {sent}; nothing had happened to the slave"


def _timed_out(history: History, sent: Sent) -> Iterator[str]:
    """The answer comes when the time is over: no later if nothing hinders master and client, and no earlier unless the
    master stops, which answers what waits.
    """
    assert sent.answered_at is not None
    assert sent.broker is not None
    took_s = sent.answered_at - (sent.asked_at if sent.attempted_at is None else sent.attempted_at)
    has_stopped = any(
        end.stopping_since is not None and end.stopping_since <= sent.answered_at <= end.at
        for end in history.ends
        if end.broker.partition("/")[0] == sent.broker
    )
    if took_s < SLAVE_TIMEOUT_S and not has_stopped:
        yield f"status: {sent} after {took_s:.3f} s"
    latest_s = SLAVE_TIMEOUT_S + _TOLERANCE_S + _DISK_CALLS * history.plan.disk_delay_s
    if took_s > latest_s and not _is_disturbed(history, sent, {sent.broker, sent.producer}, but=f"{sent.broker}/1"):
        yield f"status: {sent} after {took_s:.3f} s"


def _is_disturbed(history: History, sent: Sent, hosts: set[str], *, but: str = "") -> bool:
    """Whether a fault of these hosts, of a link of theirs but to one, or of a nameserver may still have been felt."""
    assert sent.answered_at is not None
    for each in filter(is_fault, history.plan.operations):
        at = history.began_at + each.at_s
        is_felt = at <= sent.answered_at and at + each.seconds + RECOVERY_SECONDS >= sent.asked_at
        targets = set(each.target.split(">"))
        concerns = each.kind in ("change roles", "stop master") or hosts & targets or "nameserver" in each.target
        if is_felt and concerns and but not in targets:
            return True
    return False
