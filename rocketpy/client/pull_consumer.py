"""Pulls messages queue by queue: ``async with open_pull_consumer("127.0.0.1:9876", group="g") as consumer``.

The caller decides which queues to read and from where, and commits what is done. :meth:`PullConsumer.messages` does
the usual thing over all queues of a topic at once.

Compatibility: ``DefaultMQPullConsumer`` and ``PullAPIWrapper`` (4.9.8); client.md 6 and 9. Messages whose tag does not
match are dropped here too, because the broker compares hashes only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import ClientInstance, open_client_instance
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import BrokerError
from rocketpy.protocol.bodies.heartbeat import ConsumerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.protocol.stored_message import decode_messages

SUSPEND_FLAG = 2
SUBSCRIPTION_FLAG = 4
_PULL_CODES = tuple(status.value for status in PullStatus)


@asynccontextmanager
async def open_pull_consumer(
    name_servers: str | Sequence[str], *, group: str, config: ClientConfig | None = None
) -> AsyncIterator[PullConsumer]:
    """Open a pull consumer; when the block ends it has taken leave of the brokers and nothing runs any more."""
    settings = config or ClientConfig(name_servers=name_servers)
    async with open_client_instance(settings) as instance:
        yield PullConsumer(instance=instance, group=group)


class PullConsumer:
    """Made by :func:`open_pull_consumer`. Its methods may be called from many tasks at once."""

    def __init__(self, *, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._subscribed: dict[str, str] = {}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues, in order; ClientError 10005 when nobody has the topic."""
        return await self._instance.subscribe_queues(topic)

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        max_msg_nums: int = 32,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Pull once. With ``suspend_ms`` the broker waits that long for a message before it says NO_NEW_MSG.

        Raises BrokerError for a refusal (unknown topic, no permission, a bad expression) and RemotingError.
        """
        await self._subscribe(queue.topic, expression)
        address = await self._instance.master_address(queue.broker_name)
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=max_msg_nums,
            sys_flag=SUBSCRIPTION_FLAG | (SUSPEND_FLAG if suspend_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=suspend_ms,
            subscription=expression,
            sub_version=0,
            expression_type="TAG",
        )
        patience = (suspend_ms + self._instance.config.pull_timeout - self._instance.config.pull_suspend_timeout) / 1000
        response = await self._instance.request(
            address, make_request(RequestCode.PULL_MESSAGE, header), _PULL_CODES, timeout_s=patience
        )
        return _pull_result(response, queue, expression)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first queue offset that is still there."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        response = await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)
        return read_header(response, GetMinOffsetResponseHeader).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset that the next message will get."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        response = await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)
        return read_header(response, GetMaxOffsetResponseHeader).offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a wall time."""
        header = SearchOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        response = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return read_header(response, SearchOffsetResponseHeader).offset

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        """Return the group's committed progress, None when it has none."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        try:
            response = await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return read_header(response, QueryConsumerOffsetResponseHeader).offset

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Record the group's progress: the next offset to read. Durable on the broker within its flush interval."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=consumer_offset,
        )
        await self._ask(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def messages(
        self,
        topic: str,
        *,
        start: str | int = "stored",
        expression: str = "*",
        until_end: bool = False,
        suspend_ms: int = 15_000,
    ) -> AsyncIterator[MessageExt]:
        """Yield the messages of all queues of a topic, each queue in order.

        ``start``: ``"beginning"``, ``"end"``, ``"stored"`` (the group's progress, else the beginning) or a wall time
        in ms. With ``until_end`` the iteration ends where the queues ended when it began. Nothing is committed here:
        commit ``message.queue_offset + 1`` when a message is done.
        """
        send, receive = trio.open_memory_channel[MessageExt](64)
        async with trio.open_nursery() as nursery:
            async with send:
                for queue in await self.queues(topic):
                    begin = await self._start_offset(queue, start)
                    end = await self.max_offset(queue) if until_end else None
                    reader = _QueueReader(queue, begin, end, expression, 0 if until_end else suspend_ms)
                    nursery.start_soon(self._read_queue, reader, send.clone())
            async with receive:
                async for message in receive:
                    yield message
            nursery.cancel_scope.cancel()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _read_queue(self, reader: _QueueReader, send: trio.MemorySendChannel[MessageExt]) -> None:
        async with send:
            queue_offset = reader.begin
            while reader.end is None or queue_offset < reader.end:
                result = await self.pull(
                    reader.queue, queue_offset, expression=reader.expression, suspend_ms=reader.suspend_ms
                )
                for message in result.messages:
                    if reader.end is None or message.queue_offset < reader.end:
                        await send.send(message)
                if result.status is PullStatus.NO_NEW_MSG and reader.end is not None:
                    return
                queue_offset = result.next_begin_offset

    async def _start_offset(self, queue: MessageQueue, start: str | int) -> int:
        if isinstance(start, int):
            return await self.search_offset(queue, start)
        if start == "end":
            return await self.max_offset(queue)
        if start == "stored":
            stored = await self.consumer_offset(queue)
            if stored is not None:
                return stored
        elif start != "beginning":
            raise ValueError(f"start is {start!r}, expected 'beginning', 'end', 'stored' or a time in ms")
        return await self.min_offset(queue)

    async def _subscribe(self, topic: str, expression: str) -> None:
        """Make brokers know the group before its first pull, so that operators see who reads."""
        if self._subscribed.get(topic) == expression:
            return
        self._subscribed[topic] = expression
        await self._instance.route(topic)
        subscriptions = [parse_tag_expression(name, text) for name, text in self._subscribed.items()]
        self._instance.add_consumer(
            ConsumerData(
                group_name=self._group,
                consume_type="CONSUME_ACTIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_LAST_OFFSET",
                subscription_data_set=subscriptions,
                unit_mode=False,
            )
        )
        await self._instance.heartbeat()

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: object) -> RemotingCommand:
        await self._instance.route(queue.topic)
        address = await self._instance.master_address(queue.broker_name)
        return await self._instance.request(address, make_request(code, header))


@attrs.frozen
class _QueueReader:
    """What one task of :meth:`PullConsumer.messages` reads."""

    queue: MessageQueue
    begin: int
    end: int | None
    expression: str
    suspend_ms: int


def _pull_result(response: RemotingCommand, queue: MessageQueue, expression: str) -> PullResult:
    header = read_header(response, PullMessageResponseHeader)
    messages: list[MessageExt] = []
    if response.code == ResponseCode.SUCCESS and response.body:
        tags = set(parse_tag_expression(queue.topic, expression).tags_set)
        for message in decode_messages(response.body):
            if not tags or message.properties.get("TAGS") in tags:
                messages.append(attrs.evolve(message, broker_name=queue.broker_name))
    return PullResult(
        status=PullStatus(response.code),
        messages=tuple(messages),
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
    )
