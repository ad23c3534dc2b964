"""Offsets: the bounds of queues, the progress of groups in them, and progress set or copied by hand.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` and ``MQAdminImpl`` about offsets (4.9.8). Resets are
:mod:`rocketpy.client.admin.resets`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rocketpy.client.admin.requests import QUEUE_TIMEOUT_SECONDS, AdminRequests
from rocketpy.client.instance import read_response
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.offset import QueryCorrectionOffsetBody
from rocketpy.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanBody, QueueTimeSpan
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.admin import (
    CloneGroupOffsetRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryCorrectionOffsetHeader,
)
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.headers.topic import QueryConsumeTimeSpanRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX

HeaderT = TypeVar("HeaderT")


class OffsetAdmin:
    """Offsets of queues and groups. Obtained as :attr:`AdminClient.offsets`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    # ---- bounds of a queue ----------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue, *, address: str | None = None) -> int:
        """Return the oldest queue offset that is still there; asked of the queue's master, or of ``address``."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        answer = await self._ask_master(
            queue, RequestCode.GET_MIN_OFFSET, header, GetMinOffsetResponseHeader, address=address
        )
        return answer.offset

    async def max_offset(self, queue: MessageQueue, *, address: str | None = None) -> int:
        """Return the queue offset that the next message gets."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        answer = await self._ask_master(
            queue, RequestCode.GET_MAX_OFFSET, header, GetMaxOffsetResponseHeader, address=address
        )
        return answer.offset

    async def search_offset(self, queue: MessageQueue, timestamp: int, *, address: str | None = None) -> int:
        """Return the offset of the message stored nearest to ``timestamp`` (ms), as the broker searches."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp, broker_name=queue.broker_name
        )
        answer = await self._ask_master(
            queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, SearchOffsetResponseHeader, address=address
        )
        return answer.offset

    async def earliest_store_time(self, queue: MessageQueue, *, address: str | None = None) -> int:
        """Return when the oldest message of a queue was stored (ms), -1 for an unknown queue."""
        header = GetEarliestMsgStoretimeRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        answer = await self._ask_master(
            queue,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            header,
            GetEarliestMsgStoretimeResponseHeader,
            address=address,
        )
        return answer.timestamp

    # ---- progress -------------------------------------------------------------------------------------------------

    async def progress(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Return the progress of a group in the queues of its topics, or of one topic, on all its brokers.

        ClientError 17 when no broker knows the group, 206 when it has no offset anywhere.
        """
        addresses = await self._requests.broker_addresses(RETRY_PREFIX + group)
        tables = await self._requests.each(addresses.values(), lambda address: self.progress_at(address, group, topic))
        merged = {queue: offset for table in tables.values() for queue, offset in table.offset_table.items()}
        if not merged:
            raise ClientError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Not found the consumer group consume stats of {group}, because return offset table is empty, "
                "maybe the consumer not consume any message",
            )
        return ConsumeStats(merged, sum(table.consume_tps for table in tables.values()))

    async def progress_at(self, address: str, group: str, topic: str | None = None) -> ConsumeStats:
        """Return the progress of a group on one broker; no queues when it has none there."""
        response = await self._requests.ask_broker(
            address,
            RequestCode.GET_CONSUME_STATS,
            GetConsumeStatsRequestHeader(consumer_group=group, topic=topic),
            timeout_s=3 * self._requests.timeout_s,
        )
        return await self._requests.answers.body(response, ConsumeStats, address)

    async def progress_of_all(
        self, address: str, *, is_order: bool = False, timeout_ms: int | None = None
    ) -> ConsumeStatsList:
        """Return the progress of every group of one broker; ``is_order``: in ordered topics only."""
        response = await self._requests.ask_broker(
            address,
            RequestCode.GET_BROKER_CONSUME_STATS,
            GetConsumeStatsInBrokerHeader(is_order),
            timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        )
        return await self._requests.answers.body(response, ConsumeStatsList, address)

    async def time_spans(self, topic: str, group: str) -> list[QueueTimeSpan]:
        """Return first, last and last consumed store time of each queue of a topic: the lag of a group in time."""
        header = QueryConsumeTimeSpanRequestHeader(topic=topic, group=group)

        async def ask(address: str) -> QueryConsumeTimeSpanBody:
            response = await self._requests.ask_broker(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            return await self._requests.answers.body(response, QueryConsumeTimeSpanBody, address)

        bodies = await self._requests.each((await self._requests.broker_addresses(topic)).values(), ask)
        return [span for body in bodies.values() for span in body.consume_time_span_set]

    async def corrections(
        self, address: str, topic: str, group: str, *, filter_groups: Iterable[str] | None = None
    ) -> dict[int, int]:
        """Return, by queue id, the offset that all groups of a topic have passed on one broker."""
        groups = None if filter_groups is None else ",".join(filter_groups)
        header = QueryCorrectionOffsetHeader(filter_groups=groups, compare_group=group, topic=topic)
        response = await self._requests.ask_broker(address, RequestCode.QUERY_CORRECTION_OFFSET, header)
        return (await self._requests.answers.body(response, QueryCorrectionOffsetBody, address)).correction_offsets

    async def commit(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset at which a group resumes in a queue; a member that is online will overwrite it."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        await self._requests.ask_broker(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def clone(self, source_group: str, group: str, topic: str, *, offline: bool = False) -> list[str]:
        """Copy the offsets of one group to another on every broker of the first; return the brokers' addresses."""
        header = CloneGroupOffsetRequestHeader(src_group=source_group, dest_group=group, topic=topic, offline=offline)
        addresses = list((await self._requests.broker_addresses(RETRY_PREFIX + source_group)).values())
        await self._requests.each(
            addresses,
            lambda address: self._requests.ask_broker(
                address, RequestCode.CLONE_GROUP_OFFSET, header, timeout_s=3 * self._requests.timeout_s
            ),
        )
        return addresses

    async def _ask_master(
        self,
        queue: MessageQueue,
        code: RequestCode,
        header: object,
        answer_class: type[HeaderT],
        *,
        address: str | None = None,
    ) -> HeaderT:
        asked = address or await self._requests.instance.routes.publish_address(queue)
        response = await self._requests.ask_broker(asked, code, header, timeout_s=QUEUE_TIMEOUT_SECONDS)
        return read_response(response, answer_class)
