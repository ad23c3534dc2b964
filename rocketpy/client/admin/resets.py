"""Resets of consumer offsets to a point in time.

A group that is online is reset by its members: the broker tells each of them the new offsets, and they commit them.
Offsets of a group that is offline are set at the broker.

Compatibility: ``DefaultMQAdminExtImpl.resetOffsetNew`` and its two ways (4.9.8). Java sets the offsets on all brokers
by the second way as soon as one of them has no member of the group; here only on those that have none.
"""

from __future__ import annotations

from functools import partial

import attrs

from rocketpy.client.admin.offsets import OffsetAdmin
from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.consumer.start import first_offset_from
from rocketpy.errors import BrokerError
from rocketpy.protocol.bodies.offset import ResetOffsetBody, ResetOffsetBodyForC
from rocketpy.protocol.bodies.route import TopicRouteData
from rocketpy.protocol.bodies.stats import OffsetWrapper, TopicOffset, TopicStatsTable
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import ResetOffsetRequestHeader
from rocketpy.protocol.headers.topic import GetTopicStatsInfoRequestHeader
from rocketpy.protocol.message import MessageQueue

TO_END = -1
"""As a timestamp: the end of each queue, so that everything stored up to now is skipped."""


@attrs.frozen
class RollbackStats:
    """A reset of one queue at its broker.

    ``timestamp_offset`` is the offset that belongs to the time, ``rollback_offset`` the one that the group has now.
    """

    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    timestamp_offset: int
    rollback_offset: int


class ResetAdmin:
    """Resets of offsets. Obtained as :attr:`AdminClient.resets`."""

    def __init__(self, requests: AdminRequests, offsets: OffsetAdmin) -> None:
        self._requests = requests
        self._offsets = offsets

    async def reset(self, topic: str, group: str, timestamp: int) -> dict[MessageQueue, int]:
        """Let a group go on from a time (ms; :data:`TO_END`), online or not; return the new offset of each queue."""
        route = await self._requests.route(topic)

        async def reset_at(address: str) -> dict[MessageQueue, int]:
            try:
                return await self._reset_members(address, topic, group, timestamp, is_force=True, for_c=False)
            except BrokerError as failure:
                if failure.response_code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
            rollbacks = await self._reset_broker(route, address, topic, group, timestamp, force=True)
            return {MessageQueue(topic, each.broker_name, each.queue_id): each.rollback_offset for each in rollbacks}

        tables = await self._requests.each(self._addresses(route), reset_at)
        return {queue: offset for table in tables.values() for queue, offset in table.items()}

    async def reset_online(
        self, topic: str, group: str, timestamp: int, *, is_force: bool = True, for_c: bool = False
    ) -> dict[MessageQueue, int]:
        """Have the members of a group go on from a wall time in ms; return the new offset of each queue.

        Without ``is_force`` only backwards. ``for_c`` for members that are C++ clients. BrokerError 206 when no member
        is online, 1 when the group has no offset in the topic.
        """
        route = await self._requests.route(topic)
        tables = await self._requests.each(
            self._addresses(route),
            lambda address: self._reset_members(address, topic, group, timestamp, is_force=is_force, for_c=for_c),
        )
        return {queue: offset for table in tables.values() for queue, offset in table.items()}

    async def reset_offline(self, topic: str, group: str, timestamp: int, *, force: bool = True) -> list[RollbackStats]:
        """Set the offsets of a group at the brokers to a wall time in ms; without ``force`` only backwards.

        A queue in which the group has no offset yet counts from its first message on.
        """
        route = await self._requests.route(topic)
        rollbacks = await self._requests.each(
            self._addresses(route),
            lambda address: self._reset_broker(route, address, topic, group, timestamp, force=force),
        )
        return [each for stats in rollbacks.values() for each in stats]

    def _addresses(self, route: TopicRouteData) -> list[str]:
        return list(self._requests.addresses_of(route.broker_datas).values())

    async def _reset_members(
        self, address: str, topic: str, group: str, timestamp: int, *, is_force: bool, for_c: bool
    ) -> dict[MessageQueue, int]:
        header = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp, is_force=is_force)
        request = make_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        if for_c:
            request.language = LanguageCode.CPP  # by which the broker writes the table for its members
        response = await self._requests.send_to_broker(address, request)
        if for_c:
            listed = (await self._requests.answers.body(response, ResetOffsetBodyForC, address)).offset_table
            return {MessageQueue(each.topic, each.broker_name, each.queue_id): each.offset for each in listed}
        return dict((await self._requests.answers.body(response, ResetOffsetBody, address)).offset_table)

    async def _reset_broker(
        self, route: TopicRouteData, address: str, topic: str, group: str, timestamp: int, *, force: bool
    ) -> list[RollbackStats]:
        progress = await self._offsets.progress_at(address, group)
        consumed = {queue: each for queue, each in progress.offset_table.items() if queue.topic == topic}
        return [
            await self._reset_queue(address, group, queue, each, timestamp, force=force)
            for queue, each in (consumed or await self._untouched(route, address, topic)).items()
        ]

    async def _untouched(self, route: TopicRouteData, address: str, topic: str) -> dict[MessageQueue, OffsetWrapper]:
        """Return the queues of a broker as a group sees them that has not consumed any."""
        response = await self._requests.ask_broker(
            address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader(topic)
        )
        bounds = (await self._requests.answers.body(response, TopicStatsTable, address)).offset_table
        names = {broker.broker_name for broker in route.broker_datas if address in broker.broker_addrs.values()}
        queues = [
            MessageQueue(topic, each.broker_name, queue_id)
            for each in route.queue_datas
            if each.broker_name in names
            for queue_id in range(each.read_queue_nums)
        ]
        return {
            queue: OffsetWrapper(broker_offset=found.max_offset, consumer_offset=found.min_offset)
            for queue in queues
            for found in [bounds.get(queue, TopicOffset())]
        }

    async def _reset_queue(
        self, address: str, group: str, queue: MessageQueue, before: OffsetWrapper, timestamp: int, *, force: bool
    ) -> RollbackStats:
        if timestamp == TO_END:
            found = await self._offsets.max_offset(queue, address=address)
        else:
            found = await first_offset_from(queue, timestamp, partial(self._offsets.search_offset, address=address))
        is_reset = force or found <= before.consumer_offset
        if is_reset:
            await self._offsets.commit(address, group, queue, found)
        return RollbackStats(
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            broker_offset=before.broker_offset,
            consumer_offset=before.consumer_offset,
            timestamp_offset=found,
            rollback_offset=found if is_reset else before.consumer_offset,
        )
