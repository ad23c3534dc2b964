"""Pulls messages queue by queue: ``async with open_pull_consumer("127.0.0.1:9876", group="g") as consumer``.

The caller decides which queues to read from which offset, and commits its progress.
:meth:`PullConsumer.open_messages` reads all queues of a topic as one stream. A consumer that is opened with topics
shares their queues with the other members of its group (:attr:`PullConsumer.assigned`), and
:meth:`PullConsumer.run_pull_task` calls a function of the program for each of them.

Compatibility: ``DefaultMQPullConsumer`` and ``MQPullConsumerScheduleService`` (4.9.8). A commit is stored when it
returns, unless the program wants it stored later; in Java it is stored later, and only of queues that a rebalance has
given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.group.assignment_changes import AssignmentIterator
from rocketpy.client.consumer.message_selector import MessageSelector, check_subscribed_topic, subscription_to
from rocketpy.client.consumer.message_stream import MessageStream, StreamPlan, open_message_stream
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.opening import open_offset_store
from rocketpy.client.consumer.pull_consumer_member import PullMember
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.consumer.scheduled_pull import PullTask, ScheduledPull
from rocketpy.client.consumer.send_back import SendBack
from rocketpy.client.consumer.start import Start, StartKind, offset_of_start
from rocketpy.client.instance import ClientInstance
from rocketpy.client.namespace import Namespace
from rocketpy.client.readiness import missing_membership, missing_name_server, missing_routes, wait_until_ready
from rocketpy.client.results import PullResult
from rocketpy.client.scope import unwrapped
from rocketpy.client.validators import check_async, check_group
from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.bodies.heartbeat import EXPRESSION_TYPE_TAG, SUB_ALL, SubscriptionData
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG


@asynccontextmanager
async def pull_consumer_role(
    instance: ClientInstance, group: str, topics: Sequence[str], config: PullConfig
) -> AsyncIterator[PullConsumer]:
    """Open a pull consumer in a client; at the end of the block it is unregistered from the brokers."""
    namespace = Namespace(instance.namespace)
    group = namespace.wrap(group)
    check_group(group)
    requests = QueueRequests(instance=instance, group=group)
    store = await open_offset_store(instance, group, requests, config)
    async with unwrapped(trio.open_nursery()) as nursery:
        consumer = PullConsumer(
            instance=instance,
            group=group,
            topics=[namespace.wrap(each) for each in topics],
            config=config,
            requests=requests,
            store=store,
            nursery=nursery,
        )
        await consumer._member.join()
        try:
            yield consumer
        finally:
            nursery.cancel_scope.cancel()
            await consumer._member.leave()


class PullConsumer:
    """Consumer of single queues. Created by :meth:`Client.pull_consumer`; may be used by many tasks concurrently."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        topics: Sequence[str],
        config: PullConfig,
        requests: QueueRequests,
        store: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._config = config
        self._group = group
        self._namespace = Namespace(instance.namespace)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._requests = requests
        self._store = store
        self._member = PullMember(
            instance=instance,
            group=group,
            topics=topics,
            config=config,
            store=store,
            pulled=lambda: self._subscriptions,
            nursery=nursery,
        )

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues, in order; NoRouteError when no broker has the topic."""
        queues = await self._routes.subscribe_queues(self._namespace.wrap(topic))
        return self._namespace.unwrap_queues(queues)

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str | MessageSelector = SUB_ALL,
        max_msg_nums: int = 32,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Pull once. With ``suspend_ms`` the broker waits that long for a message before it says NO_NEW_MSG.

        ``expression`` selects by tags, or is a :class:`MessageSelector`.

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
                sub_version=0 if subscription.expression_type == EXPRESSION_TYPE_TAG else subscription.sub_version,
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
        queue = self._namespace.wrap_queue(queue)
        known = self._store.table.get(queue)
        return await self._store.fetch(queue) if known is None else known

    async def commit(self, queue: MessageQueue, consumer_offset: int, *, persist: bool = True) -> None:
        """Record the group's progress: the next offset to read. Durable on the broker within its flush interval.

        A slave takes it while there is no master, and brings it home. Without ``persist`` it is only noted, and stored
        within ``persist_consumer_offset_interval``, at the end of the block, or when a rebalance takes the queue; of a
        topic that the consumer was opened with, it is stored only if the queue is assigned. A broadcasting consumer
        has a file for its offsets. ValueError for a negative offset, which would make the group begin anew.
        """
        if consumer_offset < 0:
            raise ValueError(f"consumer_offset is {consumer_offset}, expected at least 0")
        queue = self._namespace.wrap_queue(queue)
        if persist and not self._config.is_broadcasting:
            self._store.table.forget(queue)  # what was noted before must not come after it
            await self._requests.commit(queue, consumer_offset)
            return
        self._store.table.update(queue, consumer_offset, increase_only=False)
        if persist:
            await self._store.persist([queue])

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
        :meth:`MessageStream.commit` is called. NoRouteError when no broker has the topic, ValueError for an
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
        async with open_message_stream(self, plan, partial(self._continuity, plan.start)) as stream:
            yield stream

    async def send_message_back(self, message: MessageExt, delay_level: int = 0, *, group: str | None = None) -> bool:
        """Give a message back, to be consumed again by members with handlers; False when no broker has taken it.

        ``delay_level`` 0 lets the broker choose (later with each retry), -1 makes it a dead letter. ``group``
        takes the place of the consumer's own. Pull consumers get it again only if they pull ``%RETRY%GROUP``.
        """
        back = SendBack(
            instance=self._instance,
            group=self._group if group is None else self._namespace.wrap(group),
            max_reconsume_times=self._config.max_reconsume_times,
            randomness=self._instance.randomness,
        )
        return await back.send_back(message, delay_level)

    # ---- a share of topics ----------------------------------------------------------------------------------------

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member of the group has now, in order, of the topics that it was opened with."""
        return self._namespace.unwrap_queues(sorted(self._member.queues.assigned))

    async def wait_assigned(self) -> list[MessageQueue]:
        """Return the queues after the first rebalance; LocalProtocolError if it was opened without topics."""
        self._check_registered()
        await self._member.queues.wait_assigned()
        return self.assigned

    async def wait_ready(self, timeout_s: float, *topics: str) -> None:
        """Return when a nameserver answers and these topics have queues, as well as those that it was opened with.

        Of the latter this member has its share then. NotReadyError if that is not so in time: its ``missing`` says what
        is not there, and why.
        """
        wanted = dict.fromkeys([*self._member.topics, *map(self._namespace.wrap, topics)])

        async def missing() -> list[str]:
            found = await missing_name_server(self._instance) or await missing_routes(self._instance, wanted)
            return found or missing_membership(self._instance, self._member.rebalance, self._member.topics)

        await wait_until_ready(self._instance, timeout_s, missing)

    def assignment_changes(self) -> AssignmentIterator:
        """Iterate over the changes of the assigned queues, beginning with those that are assigned now.

        It ends with the consumer. LocalProtocolError if it was opened without topics.
        """
        self._check_registered()
        return AssignmentIterator(self._member.rebalance.changes, self._namespace)

    async def run_pull_task(self, topic: str, task: PullTask) -> None:
        """Call ``task(queue)`` for each assigned queue of a topic, again and again, until cancelled.

        The task pulls the queue once, commits, and returns the seconds until its next call, None for 0.2. If it fails,
        that is logged, and it is called again after a second. A queue that a rebalance takes is called for no longer; a
        call that runs then comes to its end. LocalProtocolError for a topic that the consumer was not opened with.
        """
        check_async(task)
        self._check_registered(topic)
        await ScheduledPull(topic, task).run(self.assignment_changes())

    # ---- private --------------------------------------------------------------------------------------------------

    def _continuity(self, start: Start, queue: MessageQueue, queue_offset: int) -> Continuity:
        """Return that of a queue; where it has lost its tail, reading goes on at the stored progress or at its end."""

        async def begin_offset(wrapped: MessageQueue) -> int:
            if start.kind is StartKind.STORED:
                return await self.start_offset(queue, start)
            return await self._requests.max_offset(wrapped)

        return Continuity(self._namespace.wrap_queue(queue), queue_offset, self._requests, begin_offset)

    def _check_registered(self, topic: str | None = None) -> None:
        topics = [self._namespace.unwrap(each) for each in self._member.topics]
        if not topics or topic not in (None, *topics):
            wanted = "a topic" if topic is None else topic
            raise LocalProtocolError(f"expected a consumer that was opened with {wanted}, found one with {topics}")

    def _subscribe(self, topic: str, expression: str | MessageSelector) -> SubscriptionData:
        """Announce the subscription in heartbeats, so that operators see the consumer; return it."""
        subscription = self._subscriptions.get(topic)
        selector = MessageSelector.by_tag(expression) if isinstance(expression, str) else expression
        wanted = (selector.expression or SUB_ALL, selector.expression_type)
        if subscription is None or (subscription.sub_string, subscription.expression_type) != wanted:
            check_subscribed_topic(topic)
            now_ms = self._instance.clock.timestamp_ms()
            if isinstance(expression, str):
                subscription = parse_tag_expression(topic, expression, sub_version=now_ms)
            else:
                subscription = subscription_to(topic, expression, sub_version=now_ms)
            self._subscriptions[topic] = subscription
            self._instance.heartbeats.wake()
        return subscription
