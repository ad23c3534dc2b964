"""Pulls messages queue by queue: ``async with open_pull_consumer("127.0.0.1:9876", group="g") as consumer``.

The caller decides which queues to read from which offset, and commits its progress.
:meth:`PullConsumer.open_messages` reads all queues of a topic as one stream.

Compatibility: ``DefaultMQPullConsumer`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.message_stream import MessageStream, StreamPlan, open_message_stream
from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.consumer.start import Start, offset_of_start
from rocketpy.client.instance import ClientInstance
from rocketpy.client.namespace import Namespace
from rocketpy.client.results import PullResult
from rocketpy.client.validators import check_group
from rocketpy.protocol.bodies.heartbeat import SUB_ALL, ConsumerData, ConsumeType, SubscriptionData
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG


@asynccontextmanager
async def pull_consumer_role(instance: ClientInstance, group: str, config: PullConfig) -> AsyncIterator[PullConsumer]:
    """Open a pull consumer in a client; at the end of the block it is unregistered from the brokers."""
    group = Namespace(instance.namespace).wrap(group)
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
        self._namespace = Namespace(instance.namespace)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._requests = QueueRequests(instance=instance, group=group)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues, in order; ClientError 10005 when no broker has the topic."""
        queues = await self._routes.subscribe_queues(self._namespace.wrap(topic))
        return self._namespace.unwrap_queues(queues)

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
        queue = self._namespace.wrap_queue(queue)
        subscription = self._subscribe(queue.topic, expression)
        return await self._requests.pull(
            PullRequest(
                queue=queue,
                queue_offset=queue_offset,
                subscription=subscription,
                sys_flag=PULL_SUBSCRIPTION_FLAG | (PULL_SUSPEND_FLAG if suspend_ms else 0),
                max_msg_nums=max_msg_nums,
                suspend_ms=suspend_ms,
                timeout_s=(suspend_ms + self._config.consumer_pull_timeout) / 1000,
            )
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest queue offset that still exists."""
        return await self._requests.min_offset(self._namespace.wrap_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset that the next message will get."""
        return await self._requests.max_offset(self._namespace.wrap_queue(queue))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a wall time in ms, before or after it."""
        return await self._requests.search_offset(self._namespace.wrap_queue(queue), timestamp_ms)

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        """Return the group's committed progress, None when it has none."""
        return await self._requests.consumer_offset(self._namespace.wrap_queue(queue))

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Record the group's progress: the next offset to read. Durable on the broker within its flush interval.

        A slave takes it while there is no master, and brings it home.
        """
        await self._requests.commit(self._namespace.wrap_queue(queue), consumer_offset)

    async def start_offset(self, queue: MessageQueue, start: Start | str | int) -> int:
        """Return the queue offset at which reading begins; the short forms of a start are those of :meth:`Start.of`."""
        return await offset_of_start(Start.of(start), queue, self)

    @asynccontextmanager
    async def open_messages(
        self,
        topic: str,
        *,
        start: Start | str | int = "stored",
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
        config = self._instance.config
        plan = StreamPlan(
            topic=topic,
            queues=queues,
            start=Start.of(start),
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
