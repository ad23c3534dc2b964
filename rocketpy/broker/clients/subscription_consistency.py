"""Detects members of one consumer group with different subscriptions: a mistake that loses messages.

The last heartbeat of any member replaces the subscriptions of the whole group, so members that disagree take turns:
every 30 seconds pulls of some are refused, and messages to which only some subscribe are skipped. RocketMQ does not
report it. Here a log line names the group, two members and their subscriptions, once per change, and the number of such
groups is a metric (``inconsistentSubscriptionGroups``).

Compared are topics with their expressions, and the message model. Versions and the group's own retry topic are ignored.
"""

from __future__ import annotations

import logging

import attrs

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.heartbeat import EXPRESSION_TYPE_TAG, SUB_ALL, ConsumerData
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.remoting.connection import Connection

_SHOWN_MAX = 500

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class MemberSubscription:
    """The message model and the subscriptions of one member."""

    message_model: str
    subscriptions: tuple[tuple[str, str, str], ...]  # topic, type and expression, in the order of topics

    @classmethod
    def of(cls, consumer: ConsumerData) -> MemberSubscription:
        """Return those in a heartbeat."""
        retry_topic = RETRY_PREFIX + consumer.group_name
        return cls(
            consumer.message_model,
            tuple(
                sorted(
                    (each.topic, each.expression_type or EXPRESSION_TYPE_TAG, each.sub_string or SUB_ALL)
                    for each in consumer.subscription_data_set
                    if each.topic != retry_topic
                )
            ),
        )

    def __str__(self) -> str:
        texts = [
            f"{topic}: {expression}" if kind == EXPRESSION_TYPE_TAG else f"{topic}: {kind} {expression}"
            for topic, kind, expression in self.subscriptions
        ]
        text = ", ".join(texts) or "nothing"
        return f"{text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + '...'} ({self.message_model})"


@attrs.frozen
class _Member:
    client_id: str
    subscription: MemberSubscription


class SubscriptionWatch:
    """Table of the subscriptions of every member online, by group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, _Member]] = {}
        self._inconsistent: set[str] = set()

    @property
    def inconsistent_groups(self) -> tuple[str, ...]:
        """The groups whose members disagree now."""
        return tuple(sorted(self._inconsistent))

    def runtime_info(self) -> dict[str, str]:
        """Return the row of GET_BROKER_RUNTIME_INFO."""
        return {"inconsistentSubscriptionGroups": str(len(self._inconsistent))}

    def update(self, client: ClientChannelInfo, consumer: ConsumerData) -> None:
        """Apply a member's heartbeat; log if its subscription has changed and differs from another member's."""
        group = consumer.group_name
        members = self._groups.setdefault(group, {})
        known = members.get(client.channel)
        new = MemberSubscription.of(consumer)
        if known is not None and known.subscription == new and known.client_id == client.client_id:
            return
        others = [member for channel, member in members.items() if channel is not client.channel]
        # Equal values share one object: groups are large, and mostly consistent.
        new = next((member.subscription for member in others if member.subscription == new), new)
        members[client.channel] = _Member(client.client_id, new)
        other = next((member for member in others if member.subscription is not new), None)
        if other is None:
            self._agreed(group)
            return
        self._inconsistent.add(group)
        _log.warning(
            "members of a group have different subscriptions",
            extra=event_fields(
                group=group, client=client.client_id, wants=new, other=other.client_id, otherWants=other.subscription
            ),
        )

    def left(self, group: str, channel: Connection) -> None:
        """Remove a member; the remaining ones may be consistent now."""
        members = self._groups.get(group)
        if members is None or members.pop(channel, None) is None:
            return
        if not members:
            del self._groups[group]
            self._inconsistent.discard(group)
        elif group in self._inconsistent and len({id(member.subscription) for member in members.values()}) == 1:
            # Equal values share one object (see update), which saves hashing thousands of subscriptions per member.
            self._agreed(group)

    def _agreed(self, group: str) -> None:
        if group in self._inconsistent:
            self._inconsistent.discard(group)
            _log.info("members of a group have equal subscriptions again", extra=event_fields(group=group))
