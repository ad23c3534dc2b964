"""Pulls messages queue by queue: ``async with open_pull_consumer("127.0.0.1:9876", group="g") as consumer``.

The caller decides which queues to read from which offset, and commits its progress.
:meth:`PullConsumer.open_messages` reads all queues of a topic as one stream.

A queue is pulled from the broker that the last answer has named, a slave when its master must read from its disk, and
from any of the same name when that one is not registered. Progress is the master's, and a slave's without a master.

Compatibility: ``DefaultMQPullConsumer``, ``PullAPIWrapper`` and ``RemoteBrokerOffsetStore`` (4.9.8). After a failed
pull the next one goes to the master again; RocketMQ stays with a slave that has vanished until its route has. As in
Java, the tags are compared again here, because the broker compares only their hashes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.message_stream import MessageStream, StreamPlan, open_message_stream
from rocketpy.client.instance import ClientInstance, read_response
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.client.validators import check_group
from rocketpy.errors import BrokerError, RemotingError
from rocketpy.protocol.bodies.heartbeat import (
    EXPRESSION_TYPE_TAG,
    SUB_ALL,
    ConsumerData,
    ConsumeType,
    SubscriptionData,
)
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.selector.tag import has_tag, parse_tag_expression
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG

STARTS = ("beginning", "end", "stored")
_PULL_CODES = tuple(status.value for status in PullStatus)


@asynccontextmanager
async def pull_consumer_role(instance: ClientInstance, group: str, config: PullConfig) -> AsyncIterator[PullConsumer]:
    """Open a pull consumer in a client; at the end of the block it is unregistered from the brokers."""
    check_group(group)
    consumer = PullConsumer(instance=instance, group=group, config=config)
    instance.heartbeats.add_consumer(group, consumer._consumer_data)
    try:
        yield consumer
    finally:
        await instance.heartbeats.remove_consumer(group)


class PullConsumer:
    """Consumer of single queues. Created by :meth:`Client.pull_consumer`; may be used by many tasks concurrently."""

    def __init__(self, *, instance: ClientInstance, group: str, config: PullConfig) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._config = config
        self._group = group
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._suggested_broker_ids: dict[MessageQueue, int] = {}  # from the last pull's answer

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues, in order; ClientError 10005 when no broker has the topic."""
        return await self._routes.subscribe_queues(topic)

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
        subscription = self._subscribe(queue.topic, expression)
        address = await self._routes.subscribe_address(queue, self._suggested_broker_ids.get(queue, MASTER_ID))
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=max_msg_nums,
            sys_flag=PULL_SUBSCRIPTION_FLAG | (PULL_SUSPEND_FLAG if suspend_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=suspend_ms,
            subscription=subscription.sub_string,
            sub_version=0,
            expression_type=EXPRESSION_TYPE_TAG,
            broker_name=queue.broker_name,
        )
        patience_ms = suspend_ms + self._config.consumer_pull_timeout
        try:
            response = await self._instance.request(
                address, make_request(RequestCode.PULL_MESSAGE, header), _PULL_CODES, timeout_s=patience_ms / 1000
            )
        except RemotingError:
            self._suggested_broker_ids.pop(queue, None)  # a slave that does not answer is left for the master
            self._instance.request_route_refresh()
            raise
        result = _pull_result(response, queue, subscription)
        self._suggested_broker_ids[queue] = result.suggest_which_broker_id
        return result

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest queue offset that still exists."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        response = await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)
        return read_response(response, GetMinOffsetResponseHeader).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset that the next message will get."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        response = await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)
        return read_response(response, GetMaxOffsetResponseHeader).offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a wall time in ms, before or after it."""
        header = SearchOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        response = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return read_response(response, SearchOffsetResponseHeader).offset

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        """Return the group's committed progress, None when it has none."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        try:
            response = await self._ask_for_progress(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return read_response(response, QueryConsumerOffsetResponseHeader).offset

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Record the group's progress: the next offset to read. Durable on the broker within its flush interval.

        A slave takes it while there is no master, and brings it home.
        """
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=consumer_offset,
        )
        await self._ask_for_progress(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def start_offset(self, queue: MessageQueue, start: str | int) -> int:
        """Return the queue offset at which reading begins.

        ``start`` is ``"beginning"``, ``"end"``, ``"stored"`` (the group's progress, else the beginning), a wall time in
        ms, or a negative number -N for the last N messages.
        """
        if isinstance(start, int):
            if start < 0:
                return max(await self.min_offset(queue), await self.max_offset(queue) + start)
            return await self.search_offset(queue, start)
        if start == "end":
            return await self.max_offset(queue)
        if start == "stored":
            stored = await self.consumer_offset(queue)
            if stored is not None:
                return stored
        elif start != "beginning":
            raise ValueError(f"start is {start!r}, expected 'beginning', 'end', 'stored' or a number")
        return await self.min_offset(queue)

    @asynccontextmanager
    async def open_messages(
        self,
        topic: str,
        *,
        start: str | int = "stored",
        expression: str = "*",
        until_end: bool = False,
        queues: Sequence[MessageQueue] | None = None,
        suspend_ms: int = 15_000,
    ) -> AsyncIterator[MessageStream]:
        """Read all queues of a topic, or the given ones, as one stream, each queue in order.

        ``start`` is what :meth:`start_offset` takes; after a wall time come only messages stored since then. With
        ``until_end`` the stream ends where the queues ended when it was opened. Nothing is committed unless
        :meth:`MessageStream.commit` is called. ClientError 10005 when no broker has the topic, ValueError for an
        invalid ``start`` or ``expression``.
        """
        parse_tag_expression(topic, expression)
        if isinstance(start, str) and start not in STARTS:
            raise ValueError(f"start is {start!r}, expected one of {', '.join(STARTS)} or a number")
        config = self._instance.config
        plan = StreamPlan(
            topic=topic,
            queues=queues,
            start=start,
            expression=expression,
            until_end=until_end,
            suspend_ms=suspend_ms,
            retry_pause_s=config.pull_time_delay_when_exception / 1000,
            new_queues_interval_s=config.poll_name_server_interval / 1000,
        )
        async with open_message_stream(self, plan) as stream:
            yield stream

    # ---- private --------------------------------------------------------------------------------------------------

    def _consumer_data(self) -> ConsumerData:
        """Return what heartbeats say of the consumer."""
        return ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_ACTIVELY.value,
            subscription_data_set=list(self._subscriptions.values()),
        )

    def _subscribe(self, topic: str, expression: str) -> SubscriptionData:
        """Announce the subscription in heartbeats, so that operators see the consumer; return it."""
        subscription = self._subscriptions.get(topic)
        if subscription is None or subscription.sub_string != (expression or SUB_ALL):
            subscription = parse_tag_expression(topic, expression, sub_version=self._instance.clock.timestamp_ms())
            self._subscriptions[topic] = subscription
            self._instance.heartbeats.wake()
        return subscription

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: object) -> RemotingCommand:
        """Send a request to the queue's master: the ends of a slave's queues lag."""
        return await self._request(await self._routes.publish_address(queue), make_request(code, header))

    async def _ask_for_progress(self, queue: MessageQueue, code: RequestCode, header: object) -> RemotingCommand:
        """Send a request to the queue's master, or to a slave while there is none."""
        return await self._request(await self._routes.offset_address(queue), make_request(code, header))

    async def _request(self, address: str, request: RemotingCommand) -> RemotingCommand:
        try:
            return await self._instance.request(address, request)
        except RemotingError:
            self._instance.request_route_refresh()
            raise


def _pull_result(response: RemotingCommand, queue: MessageQueue, subscription: SubscriptionData) -> PullResult:
    header = read_response(response, PullMessageResponseHeader)
    messages: list[MessageExt] = []
    if response.code == ResponseCode.SUCCESS and response.body:
        messages = decode_messages(response.body, broker_name=queue.broker_name)
    return PullResult(
        status=PullStatus(response.code),
        messages=tuple(each for each in messages if has_tag(subscription, each.tags)),
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        suggest_which_broker_id=header.suggest_which_broker_id,
    )
