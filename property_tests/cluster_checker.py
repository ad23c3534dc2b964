"""What must hold in every history of a cluster, by what its clients were told alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from property_tests.cluster_exemptions import may_lose, why_not_delivered
from property_tests.cluster_late import broken_late
from property_tests.cluster_offset_checks import broken_offsets
from property_tests.cluster_record import Got, History, Sent, are_equal, body_of, has_record
from property_tests.cluster_retries import kept_backs
from property_tests.cluster_status_checks import broken_statuses
from rocketpy.client.results import SendStatus

ATTEMPTS_MAX = 3
"""A producer sends a message once, and up to twice more when it gets no answer."""


def broken_promises(history: History) -> list[str]:
    """Return a line for everything that does not hold; none if all is well."""
    return [
        *_acknowledged_is_kept(history),
        *_queues_are_whole(history),
        *_only_what_was_sent(history),
        *_order_of_a_producer(history),
        *broken_statuses(history),
        *_consumed(history),
        *_healed(history),
        *_replicated(history),
        *_logs(history),
        *_keys(history),
        *broken_late(history),
        *_sent_back(history),
        *(f"deleted: {each}" for each in history.undeleted),
        *broken_offsets(history),
        *(f"forged: {lie}" for lie in history.lies),
    ]


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
    """Offsets of a queue begin at 0, or at the first message that is not deleted with its file, and have no gap."""
    for queue, contents in history.final.items():
        offsets = [got.queue_offset for got in contents]
        begin = offsets[0] if history.begin_offsets[queue[0]] else 0
        if offsets != list(range(begin, begin + len(offsets))):
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
        if got.body.rstrip(b"x") != body_of(got.number):
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


def _consumed(history: History) -> Iterator[str]:
    """Each group gets each acknowledged message that is kept, and the messages of a queue in order.

    It gets this message and not another one at its queue offset, but for what ``why_not_delivered`` names.
    """
    for group, lives in history.got.items():
        numbers = {(got.queue, got.queue_offset, got.number) for life in lives for got in life}
        for sent in history.sent:
            if sent.queue is None or (sent.queue, sent.queue_offset, sent.number) in numbers:
                continue
            if not may_lose(history, sent) and why_not_delivered(history, group, sent) is None:
                yield f"delivered: {group} never got: {sent}"
        for life in lives:
            yield from (f"in order: {group} got {text}" for text in _disorder(history, life))


def _disorder(history: History, life: list[Got]) -> Iterator[str]:
    shaken = {broker.partition("/")[0] for _, broker in history.tail_losses + history.promotions}
    last: dict[tuple[str, int], Got] = {}
    for got in life:
        before = last.get(got.queue)
        is_next = before is None or got.queue_offset == before.queue_offset + 1
        if history.plan.has_slaves and before is not None:
            # A slave that lags answers from where its log ends: messages repeat. None is left out.
            is_next = got.queue_offset <= before.queue_offset + 1
        is_excused = got.queue[0] in shaken or (
            before is not None and got.queue_offset > before.queue_offset and _are_deleted(history, before, got)
        )
        if not is_next and not is_excused:
            yield f"{got} after {before}"
        last[got.queue] = got


def _are_deleted(history: History, before: Got, got: Got) -> bool:
    """Whether what lies between two messages of a queue was deleted with its files, and is not there in the end."""
    return history.skipped_before.get(got.queue[0], 0) > 0 and not any(
        before.queue_offset < each.queue_offset < got.queue_offset for each in history.final.get(got.queue, ())
    )


def _sent_back(history: History) -> Iterator[str]:
    """What a group has sent back is in its retry topic, unless its offset was of another record by then."""
    for back in kept_backs(history):
        if back.sent.number not in history.retried.get(back.group, set()):
            yield f"back: {back.group} sent back #{back.sent.number} at {back.sent.asked_at:.3f}; it never came again"


def _healed(history: History) -> Iterator[str]:
    """After the faults every producer reaches every broker again, and every group reads every queue."""
    if not history.is_healed:
        yield "healed: after the faults not every producer reached every broker, or not every group read every queue"


def _replicated(history: History) -> Iterator[str]:
    """What a SYNC_MASTER answers SEND_OK is in the log of its slave at that moment, and in one log for good."""
    if not history.plan.is_sync_master:
        return
    for sent in history.sent:
        if sent.status is not SendStatus.SEND_OK or sent.broker is None:
            continue
        if sent.is_on_slave is False:
            yield f"replicated: {sent}; the slave did not have it then"
        name = sent.broker
        has_lost = {broker for at, broker in history.tail_losses if at >= sent.asked_at}
        hosts = history.plan.hosts_of(name)
        lost_by_all = bool(has_lost & hosts) if history.plan.slave_count > 1 else hosts <= has_lost
        lost_by_all |= history.plan.cuts_tails and bool(has_lost & hosts)  # the other one cuts it then
        lost_by_all |= sent.physical_offset < max(history.logs[each].begin_offset for each in hosts)
        if not lost_by_all and not any(has_record(history.logs[each], sent) for each in hosts):
            yield f"replicated: {sent}; no log has it in the end"


def _logs(history: History) -> Iterator[str]:
    """In the end a slave has its master's log, or says why not; if no tail was lost, or it cuts its own, it has it."""
    shaken = {broker for _, broker in history.tail_losses + history.promotions}
    for name, figures in history.figures.items():
        master = history.masters[name.partition("/")[0]]
        ours, theirs = history.logs[name], history.logs[master]
        if are_equal(ours, theirs):
            continue
        parts_at = ours.parts_from(theirs)
        state = f"{figures.get('haState')}, alarm {figures.get('haAlarm')!r}{figures.get('failure', '')}"
        found = f"{name} ends at {ours.end_offset}, {master} at {theirs.end_offset}, they part at {parts_at}: {state}"
        if not figures.get("haAlarm"):
            yield f"logs: no alarm: {found}"
        elif history.plan.cuts_tails and "part at" in figures["haAlarm"]:
            yield f"logs: not cut: {found}"
        elif ours.end_offset > theirs.begin_offset and not shaken & {name, master, _name_of(name)}:
            yield f"logs: nothing was lost: {found}"


def _name_of(host: str) -> str:
    return host.partition("/")[0]


def _keys(history: History) -> Iterator[str]:
    """In the end a message is found by its key, on a slave too; one that began empty has the last files only."""
    for broker, found in history.found_by_key.items():
        master = history.masters[broker.partition("/")[0]]
        if are_equal(history.logs[broker], history.logs[master]):
            for sent in (history.sent[number] for number, is_found in found.items() if not is_found):
                if sent.physical_offset >= history.logs[broker].begin_offset and not may_lose(history, sent):
                    yield f"keys: {broker} does not find {sent}"
