"""Tracks of a message: how far each group that consumes its topic has come with it.

Compatibility: ``DefaultMQAdminExtImpl.messageTrackDetail`` (4.9.8). A group without a member is NOT_ONLINE here also
when it is the client that finds no connection in the answer, which Java shows as UNKNOWN.
"""

from __future__ import annotations

from enum import StrEnum

import attrs

from rocketpy.client.admin.clients import ClientAdmin
from rocketpy.client.admin.offsets import OffsetAdmin
from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.admin.topics import TopicAdmin
from rocketpy.errors import BrokerError, ClientError, RocketpyError
from rocketpy.protocol.bodies.connection import ConsumerConnection
from rocketpy.protocol.bodies.heartbeat import SUB_ALL, ConsumeType
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt


class TrackType(StrEnum):
    """State of a message in a group."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    """The group pulls on its own, and no broker knows what it has done."""
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


@attrs.frozen
class MessageTrack:
    """One group; ``exception_desc`` is why it is not known what the group has done."""

    consumer_group: str
    track_type: TrackType
    exception_desc: str | None = None


class MessageTracks:
    """Looks at the groups of a message."""

    def __init__(
        self, requests: AdminRequests, *, topics: TopicAdmin, clients: ClientAdmin, offsets: OffsetAdmin
    ) -> None:
        self._requests = requests
        self._topics = topics
        self._clients = clients
        self._offsets = offsets

    async def of(self, message: MessageExt) -> list[MessageTrack]:
        """Return the track of each group that consumes the topic, sorted by group.

        A failure that concerns one group is part of its track; one that concerns the topic is raised.
        """
        return [await self._of_group(message, group) for group in await self._topics.consumer_groups(message.topic)]

    async def _of_group(self, message: MessageExt, group: str) -> MessageTrack:
        try:
            connection = await self._clients.consumers(group)
            if connection.consume_type == ConsumeType.CONSUME_ACTIVELY:
                return MessageTrack(group, TrackType.PULL)
            if connection.consume_type != ConsumeType.CONSUME_PASSIVELY:
                return MessageTrack(group, TrackType.UNKNOWN)
            if not await self.is_consumed(message, group):
                return MessageTrack(group, TrackType.NOT_CONSUME_YET)
        except (BrokerError, ClientError) as failure:
            is_offline = failure.response_code == ResponseCode.CONSUMER_NOT_ONLINE
            return MessageTrack(group, TrackType.NOT_ONLINE if is_offline else TrackType.UNKNOWN, str(failure))
        except RocketpyError as failure:
            return MessageTrack(group, TrackType.UNKNOWN, str(failure))
        is_let_through = _lets_through(connection, message)
        return MessageTrack(group, TrackType.CONSUMED if is_let_through else TrackType.CONSUMED_BUT_FILTERED)

    async def is_consumed(self, message: MessageExt, group: str) -> bool:
        """Return whether a group's offset in the message's own queue has passed the message."""
        progress = await self._offsets.progress(group)
        brokers = (await self._requests.cluster_info()).broker_addr_table
        return any(
            found.consumer_offset > message.queue_offset
            for queue, found in progress.offset_table.items()
            if (queue.topic, queue.queue_id) == (message.topic, message.queue_id)
            and queue.broker_name in brokers
            and brokers[queue.broker_name].broker_addrs.get(MASTER_ID) == message.store_host
        )


def _lets_through(connection: ConsumerConnection, message: MessageExt) -> bool:
    subscription = connection.subscription_table.get(message.topic)
    if subscription is None or not subscription.tags_set:
        return True
    return SUB_ALL in subscription.tags_set or message.tags in subscription.tags_set
