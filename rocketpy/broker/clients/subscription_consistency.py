"""Finds out when members of one consumer group do not subscribe to the same: a mistake that loses messages.

The last heartbeat of any member decides what the whole group subscribes to, so members that disagree take turns: every
30 seconds some of them are refused, and messages that only some want are passed over. RocketMQ says nothing about it.
Here a line names the group, two members and what they want, once for every change, and the number of such groups is a
figure (``inconsistentSubscriptionGroups``).

What counts is what a member asks for: topics with their expressions, and the message model. Versions are not compared,
nor the group's own retry topic.
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
class Wanted:
    """What one member asks for."""

    message_model: str
    subscriptions: tuple[tuple[str, str, str], ...]  # topic, type and expression, in the order of topics

    @classmethod
    def of(cls, consumer: ConsumerData) -> Wanted:
        """Return what a heartbeat says of a group."""
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
    wanted: Wanted


class SubscriptionWatch:
    """What every member of every group that is online asks for."""

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

    def heard(self, client: ClientChannelInfo, consumer: ConsumerData) -> None:
        """Take what a member's heartbeat says; a line is written if that is new and another member differs."""
        group = consumer.group_name
        members = self._groups.setdefault(group, {})
        known = members.get(client.channel)
        wanted = Wanted.of(consumer)
        if known is not None and known.wanted == wanted and known.client_id == client.client_id:
            return
        others = [member for channel, member in members.items() if channel is not client.channel]
        # An equal value that is there already is kept instead: groups are large, and mostly of one mind.
        wanted = next((member.wanted for member in others if member.wanted == wanted), wanted)
        members[client.channel] = _Member(client.client_id, wanted)
        other = next((member for member in others if member.wanted is not wanted), None)
        if other is None:
            self._agreed(group)
            return
        self._inconsistent.add(group)
        _log.warning(
            "members of a group subscribe to different things",
            extra=event_fields(
                group=group, client=client.client_id, wants=wanted, other=other.client_id, otherWants=other.wanted
            ),
        )

    def left(self, group: str, channel: Connection) -> None:
        """Forget a member that has left; those who stay may be of one mind now."""
        members = self._groups.get(group)
        if members is None or members.pop(channel, None) is None:
            return
        if not members:
            del self._groups[group]
            self._inconsistent.discard(group)
        elif group in self._inconsistent and len({id(member.wanted) for member in members.values()}) == 1:
            # Equal values are one object (see heard); to hash thousands of subscriptions of each member takes long.
            self._agreed(group)

    def _agreed(self, group: str) -> None:
        if group in self._inconsistent:
            self._inconsistent.discard(group)
            _log.info("members of a group subscribe to the same again", extra=event_fields(group=group))
