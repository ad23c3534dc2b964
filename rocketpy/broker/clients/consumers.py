"""Consumers that are online: groups, their connections and their subscriptions.

Tables only; a connection is a key here and nothing more. A change is returned, not sent: the caller has the members
notified (ConsumerIdsChangedService).

Rule: the last heartbeat of any member replaces the subscriptions of the whole group, so members that disagree overwrite
each other. That is RocketMQ's rule; SubscriptionWatch reports it. Every heartbeat also updates the SQL92 filters; when
the last member of a group leaves, its filters become inactive.

Compatibility: ``ConsumerManager`` and ``ConsumerGroupInfo`` (4.9.8). One difference: members of a group
are notified at once when the scan removes a silent client; in Java they find out with their own next rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from rocketpy.broker.clients.channel import CHANNEL_EXPIRED_SECONDS, ClientChannelInfo
from rocketpy.broker.clients.subscription_consistency import SubscriptionWatch
from rocketpy.broker.pull.filters import ConsumerFilterManager
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.remoting.connection import Connection

_GROUP_BYTES = 1000
_SUBSCRIPTION_BYTES = 500
_TAG_BYTES = 90
_TAG_CODE_BYTES = 36
"""Approximate memory of the objects, without their texts."""


def kept_bytes(consumer: ConsumerData) -> int:
    """Return the approximate memory that a client's membership of a group takes."""
    size = _GROUP_BYTES + len(consumer.group_name)
    for each in consumer.subscription_data_set:
        size += _SUBSCRIPTION_BYTES + len(each.topic) + len(each.sub_string)
        size += len(each.tags_set) * _TAG_BYTES + sum(map(len, each.tags_set)) + len(each.code_set) * _TAG_CODE_BYTES
    return size


@attrs.define(eq=False)
class ConsumerGroupInfo:
    """One group that is online."""

    group_name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscription_table: dict[str, SubscriptionData] = attrs.field(factory=dict)  # by topic
    channel_info_table: dict[Connection, ClientChannelInfo] = attrs.field(factory=dict)

    @property
    def channels(self) -> list[Connection]:
        """The connections of all members."""
        return list(self.channel_info_table)

    @property
    def client_ids(self) -> list[str]:
        """The ids of all members; one may occur twice, over two connections."""
        return [info.client_id for info in self.channel_info_table.values()]

    def find_subscription_data(self, topic: str) -> SubscriptionData | None:
        """Return the group's subscription to a topic, None if there is none."""
        return self.subscription_table.get(topic)

    def find_channel(self, client_id: str) -> ClientChannelInfo | None:
        """Return the first member with an id."""
        return next((info for info in self.channel_info_table.values() if info.client_id == client_id), None)

    def update_channel(self, client: ClientChannelInfo, consumer: ConsumerData) -> bool:
        """Apply a member's heartbeat; return True when its connection is new to the group."""
        self.consume_type = consumer.consume_type
        self.message_model = consumer.message_model
        self.consume_from_where = consumer.consume_from_where
        known = self.channel_info_table.get(client.channel)
        self.channel_info_table[client.channel] = client
        return known is None

    def update_subscription(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Replace the subscriptions; return True when topics were added or removed, not for a higher version."""
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        gone = self.subscription_table.keys() - wanted.keys()
        has_changed = bool(gone)
        for topic in gone:
            del self.subscription_table[topic]
        for topic, subscription in wanted.items():
            known = self.subscription_table.get(topic)
            has_changed |= known is None
            if known is None or subscription.sub_version > known.sub_version:
                self.subscription_table[topic] = subscription
        return has_changed


class ConsumerManager:
    """Table of the groups online at one broker. ``current_time`` is a clock in seconds that never steps."""

    def __init__(
        self,
        *,
        current_time: Callable[[], float],
        consumer_filter_manager: ConsumerFilterManager,
        subscription_watch: SubscriptionWatch,
    ) -> None:
        self._current_time = current_time
        self._consumer_filter_manager = consumer_filter_manager
        self._subscription_watch = subscription_watch
        self._groups: dict[str, ConsumerGroupInfo] = {}
        # Groups of each connection, so that a disconnect is O(its groups), with the memory that each takes.
        self._groups_of: dict[Connection, dict[str, int]] = {}
        self._kept_bytes = 0

    def __iter__(self) -> Iterator[ConsumerGroupInfo]:
        return iter(list(self._groups.values()))

    def groups_of(self, channel: Connection) -> set[str]:
        """Return the groups that a connection is in."""
        return set(self._groups_of.get(channel, ()))

    @property
    def kept_bytes(self) -> int:
        """Approximate memory taken by the heartbeats of all connections."""
        return self._kept_bytes

    def kept_bytes_of(self, channel: Connection, group: str | None = None) -> int:
        """Return the approximate memory taken by the heartbeats of a connection: of one group, or of all."""
        kept = self._groups_of.get(channel, {})
        return sum(kept.values()) if group is None else kept.get(group, 0)

    def get_consumer_group_info(self, group: str) -> ConsumerGroupInfo | None:
        """Return a group, None when it has no member online."""
        return self._groups.get(group)

    def find_subscription_data(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of an online group to a topic."""
        info = self._groups.get(group)
        return None if info is None else info.find_subscription_data(topic)

    def query_topic_consume_by_who(self, topic: str) -> list[str]:
        """Return the groups online that subscribe to a topic."""
        return [group for group, info in self._groups.items() if topic in info.subscription_table]

    def register_consumer(self, client: ClientChannelInfo, consumer: ConsumerData) -> bool:
        """Apply one group of a heartbeat; return True when a member or a topic was added or removed."""
        group = consumer.group_name
        info = self._groups.get(group)
        if info is None:
            info = self._groups[group] = ConsumerGroupInfo(
                group, consumer.consume_type, consumer.message_model, consumer.consume_from_where
            )
        client.last_update = self._current_time()
        is_new = info.update_channel(client, consumer)
        kept, size = self._groups_of.setdefault(client.channel, {}), kept_bytes(consumer)
        self._kept_bytes += size - kept.get(group, 0)
        kept[group] = size
        has_changed = info.update_subscription(consumer.subscription_data_set) or is_new
        self._consumer_filter_manager.register(group, consumer.subscription_data_set)
        self._subscription_watch.update(client, consumer)
        return has_changed

    def unregister_consumer(self, group: str, channel: Connection) -> bool:
        """Remove a connection from a group; False when it was not a member."""
        info = self._groups.get(group)
        if info is None or info.channel_info_table.pop(channel, None) is None:
            return False
        if not info.channel_info_table:
            del self._groups[group]
            self._consumer_filter_manager.unregister(group)
        self._subscription_watch.left(group, channel)
        groups = self._groups_of[channel]
        self._kept_bytes -= groups.pop(group)
        if not groups:
            del self._groups_of[channel]
        return True

    def close_channel(self, channel: Connection) -> list[str]:
        """Remove a closed connection from all its groups; return them."""
        groups = sorted(self._groups_of.get(channel, ()))
        for group in groups:
            self.unregister_consumer(group, channel)
        return groups

    def scan_not_active_channel(self) -> list[Connection]:
        """Return the connections with a group whose heartbeats have stopped; the caller closes them."""
        oldest = self._current_time() - CHANNEL_EXPIRED_SECONDS
        expired = {
            info.channel: None
            for group in self._groups.values()
            for info in group.channel_info_table.values()
            if info.last_update < oldest
        }
        return list(expired)
