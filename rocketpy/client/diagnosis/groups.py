"""Judges consumer groups by their members and by their progress, seen twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from rocketpy.client.diagnosis.finding import Finding, problem
from rocketpy.protocol.bodies.heartbeat import MessageModel
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.message import MessageQueue

STUCK_MS = 60_000
"""A queue is stuck when messages wait in it and the last one consumed is this old."""
_SHOWN_COUNT = 3

Subscriptions = frozenset[tuple[str, str]]
"""Topics with their expressions."""


@attrs.frozen(kw_only=True)
class GroupFacts:
    """What is known of a group: its members, what each of them subscribes to, its progress at two moments.

    ``client_ids`` is None when the members are not known. ``subscriptions`` has the members that have answered.
    """

    group: str
    client_ids: tuple[str, ...] | None = ()
    message_model: str | None = None
    subscriptions: Mapping[str, Subscriptions] = attrs.field(factory=dict)
    before: ConsumeStats = attrs.field(factory=ConsumeStats)
    after: ConsumeStats = attrs.field(factory=ConsumeStats)
    asked_timestamp_ms: int = 0

    @property
    def subject(self) -> str:
        """How a finding names it."""
        return f"group {self.group}"


def judge_group(facts: GroupFacts) -> Iterator[Finding]:
    """Return what is wrong with a group."""
    yield from _subscriptions(facts)
    if facts.message_model == MessageModel.BROADCASTING:
        return  # its members keep their offsets themselves
    waiting = {queue: each for queue, each in facts.after.offset_table.items() if _lag(each) > 0}
    if not waiting or facts.client_ids is None:
        return
    if not facts.client_ids:
        yield problem(
            "no-consumer",
            facts.subject,
            f"{sum(map(_lag, waiting.values()))} messages wait in {_queues(waiting)}, and no consumer is online",
            "Start a consumer of the group, or delete the group if it is not used any more",
        )
        return
    stuck = {queue: each for queue, each in waiting.items() if _is_stuck(queue, each, facts)}
    if stuck:
        yield problem(
            "stuck-queue",
            facts.subject,
            f"{sum(map(_lag, stuck.values()))} messages wait in {_queues(stuck)}, and its offset does not move",
            "Look at the consumer of the queue: a listener that blocks, or an ordered message that fails for ever "
            f"(mqadmin consumerStatus -g {facts.group} -s)",
        )


def _subscriptions(facts: GroupFacts) -> Iterator[Finding]:
    if len(set(facts.subscriptions.values())) > 1:
        named = "; ".join(
            f"{client_id} to {', '.join(f'{topic} ({expression})' for topic, expression in sorted(subscribed))}"
            for client_id, subscribed in sorted(facts.subscriptions.items())[:_SHOWN_COUNT]
        )
        yield problem(
            "inconsistent-subscriptions",
            facts.subject,
            f"its consumers subscribe to different topics or expressions: {named}",
            "Give all of them the same: a broker keeps one subscription of a group, and the others miss messages",
        )


def _is_stuck(queue: MessageQueue, after: OffsetWrapper, facts: GroupFacts) -> bool:
    before = facts.before.offset_table.get(queue)
    has_moved = before is None or before.consumer_offset != after.consumer_offset
    return not has_moved and facts.asked_timestamp_ms - after.last_timestamp >= STUCK_MS


def _lag(offset: OffsetWrapper) -> int:
    return offset.broker_offset - offset.consumer_offset


def _queues(queues: Mapping[MessageQueue, OffsetWrapper]) -> str:
    names = [f"{each.topic} {each.broker_name}:{each.queue_id}" for each in sorted(queues)]
    more = f" and {len(names) - _SHOWN_COUNT} more queues" if len(names) > _SHOWN_COUNT else ""
    return ", ".join(names[:_SHOWN_COUNT]) + more
