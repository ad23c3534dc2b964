"""Polls messages of a group: ``async with client.lite_pull_consumer("g", "T") as consumer``.

::

    while True:
        messages = await consumer.poll()       # or: async for messages in consumer
        ...                                    # a later poll commits them

The queues come from a rebalance with the other members (:meth:`LitePullConsumer.subscribe`), or are those that the
program chooses (:meth:`LitePullConsumer.assign`). Messages are pulled ahead, up to the thresholds of
:class:`~.config.LitePullConfig`. The program may seek, pause single queues, and commit by itself.

Rule: a message is committed after the poll that returned it, never by it.

Compatibility: ``DefaultLitePullConsumer`` (4.9.8). A program that handles a result counts on the next poll; Java's poll
and seek exclude each other, here a seek takes effect while a poll waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager

import trio

from rocketpy.client.callers import hands_over
from rocketpy.client.consumer.consume_hooks import ConsumeHooks
from rocketpy.client.consumer.group.assignment_changes import AssignmentIterator
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.lite_pull.chosen_queues import ChosenQueues
from rocketpy.client.consumer.lite_pull.config import LitePullConfig
from rocketpy.client.consumer.lite_pull.member import LitePullMember
from rocketpy.client.consumer.lite_pull.pulled_messages import PulledMessages
from rocketpy.client.consumer.lite_pull.queue_changes import QueueChanges
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.offsets.offset_store import OffsetStore, OffsetTable
from rocketpy.client.consumer.offsets.opening import open_offset_store
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.hooks import ConsumeMessageHook
from rocketpy.client.instance import ClientInstance
from rocketpy.client.namespace import Namespace
from rocketpy.client.readiness import missing_membership, missing_name_server, missing_routes, wait_until_ready
from rocketpy.client.scope import unwrapped
from rocketpy.client.validators import UNSPECIFIED, check_group
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.protocol.bodies.heartbeat import SUB_ALL
from rocketpy.protocol.message import MessageExt, MessageQueue

NOT_RUNNING = "The consumer not running, please start it first."


@asynccontextmanager
async def lite_pull_consumer_role(
    instance: ClientInstance,
    group: str,
    topics: Mapping[str, str | MessageSelector],
    config: LitePullConfig,
    *,
    consume_hooks: Sequence[ConsumeMessageHook] = (),
) -> AsyncIterator[LitePullConsumer]:
    """Open a lite pull consumer in a client, subscribed to topics; at the end of the block it leaves its group."""
    group = Namespace(instance.namespace).wrap(group)
    check_group(group)
    requests = QueueRequests(instance=instance, group=group)
    store = await open_offset_store(instance, group, requests, config)
    async with unwrapped(trio.open_nursery()) as nursery:
        consumer = LitePullConsumer(
            instance=instance,
            group=group,
            config=config,
            requests=requests,
            store=store,
            consume_hooks=consume_hooks,
            nursery=nursery,
        )
        try:
            for topic, selector in topics.items():
                await consumer.subscribe(topic, selector)
            yield consumer
        finally:
            nursery.cancel_scope.cancel()
            await consumer._leave()


class LitePullConsumer:
    """Consumer whose messages are polled. Created by :meth:`Client.lite_pull_consumer`.

    May be used by many tasks concurrently; an automatic commit counts what all of them have polled. It joins its group
    with its first queues. After its block every call raises LocalProtocolError.
    """

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: LitePullConfig,
        requests: QueueRequests,
        store: OffsetStore,
        consume_hooks: Sequence[ConsumeMessageHook],
        nursery: trio.Nursery,
    ) -> None:
        self._instance = instance
        self._group = group
        self._namespace = Namespace(instance.namespace)
        self._config = config
        self._hooks = None
        if consume_hooks:
            self._hooks = ConsumeHooks(group=group, namespace=instance.namespace, hooks=consume_hooks)
        self._requests = requests
        self._store = store
        self._nursery = nursery
        self._subscriptions = Subscriptions(instance.clock.timestamp_ms)
        self._progress = OffsetTable()
        self._gate = PullGate()
        self._pulled = PulledMessages(
            gate=self._gate,
            progress=self._progress,
            piece_size=config.pull_batch_size,
            messages_max=config.pull_threshold_for_all,
        )
        self._member: LitePullMember | None = None
        self._leaving = ExitStack()
        self._is_running = True
        self._finished: trio.Event | None = None  # set when the messages of the last poll are no longer in hand
        # Leaving awaits answers of brokers, and the end of the block may come meanwhile.
        self._is_leaving = trio.Lock()
        self._commits_at = 0.0  # the next automatic commit, on the clock of Trio
        # Changes of subscriptions await answers of brokers, and a consumer joins its group once.
        self._changing = trio.Lock()

    # ---- which queues ---------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, selector: str | MessageSelector = SUB_ALL) -> None:
        """Share the queues of one more topic with the other members, or change what is wanted of it.

        Its queues come with a rebalance, which is soon. ClientError for a bad expression, for a consumer that has been
        assigned queues, and if the client has another consumer of the group; BrokerError for an SQL92 expression that a
        broker does not understand.
        """
        if not topic:
            raise ClientError(UNSPECIFIED, "Topic can not be null or empty.")
        topic = self._namespace.wrap(topic)
        async with self._changing:
            self._check(is_chosen=False)
            with self._subscriptions.kept_on_failure([topic]):
                added = self._subscriptions.add(topic, selector)
                if self._member is None:
                    await self._join(None)
                else:
                    await self._member.membership.check_filter(added)
            await self._announce_change()

    async def unsubscribe(self, topic: str) -> None:
        """Give a topic up: nothing more of it is polled, and its queues go with a rebalance, which is soon."""
        async with self._changing:
            self._check_running()
            topic = self._namespace.wrap(topic)
            self._subscriptions.remove(topic)
            if self._member is not None:
                self._member.queues.hand_on_nothing([each for each in self._assigned if each.topic == topic])
                self._member.membership.forget_topic(topic)
                await self._announce_change()

    async def assign(
        self, queues: Iterable[MessageQueue], *, expressions: Mapping[str, str | MessageSelector] | None = None
    ) -> None:
        """Read these queues and no others, without regard to other members; ``expressions`` filter a topic.

        What has been pulled of others is not polled any more.
        ValueError without a queue, ClientError for a bad expression and for a consumer that has subscribed.
        """
        chosen = self._namespace.wrap_queues(queues)
        if not chosen:
            raise ValueError("Message queues can not be null or empty.")
        selectors = {self._namespace.wrap(topic): selector for topic, selector in (expressions or {}).items()}
        async with self._changing:
            self._check(is_chosen=True)
            topics = {queue.topic for queue in chosen}
            with self._subscriptions.kept_on_failure(topics):
                for topic in topics:
                    if topic in selectors or self._subscriptions.get(topic) is None:
                        self._subscriptions.add(topic, selectors.get(topic, SUB_ALL))
                await self._choose(chosen)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues of this consumer now, in order."""
        return self._namespace.unwrap_queues(self._assigned)

    async def wait_assigned(self) -> list[MessageQueue]:
        """Return the queues after the first rebalance; LocalProtocolError before a subscription."""
        self._check_running()
        await self._joined.queues.wait_assigned()
        self._check_running()
        return self.assigned

    async def wait_ready(self, timeout_s: float) -> None:
        """Return when a nameserver answers, every topic has queues, and this member has its share or what it chose.

        NotReadyError if that is not so in time: its ``missing`` says what is not there, and why.
        """
        self._check_running()

        async def missing() -> list[str]:
            topics = self._subscriptions.topics
            found = await missing_name_server(self._instance) or await missing_routes(self._instance, topics)
            if found or self._member is None:
                return found or ["no topics: expected a call of subscribe or assign"]
            return missing_membership(self._instance, self._member.rebalance, topics)

        await wait_until_ready(self._instance, timeout_s, missing)

    def assignment_changes(self) -> AssignmentIterator:
        """Iterate over the changes of the assigned queues, beginning with those that are assigned now.

        It ends with the consumer. LocalProtocolError before a subscription.
        """
        self._check_running()
        return AssignmentIterator(self._joined.rebalance.changes, self._namespace)

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Ask a nameserver for the readable queues of a topic; NoRouteError when no broker has it."""
        self._check_running()
        queues = await self._instance.routes.subscribe_queues(self._namespace.wrap(topic))
        return self._namespace.unwrap_queues(queues)

    def queue_changes(self, topic: str) -> QueueChanges:
        """Iterate over the queues of a topic: as they are, and again each time that they have changed."""
        return QueueChanges(
            topic, fetch=self.fetch_message_queues, interval_ms=self._config.topic_metadata_check_interval
        )

    # ---- messages -------------------------------------------------------------------------------------------------

    @hands_over
    async def poll(self, timeout_s: float | None = None) -> list[MessageExt]:
        """Return the messages of one pull, of one queue and in order; none if there are none in time.

        ``timeout_s`` None is the ``poll_timeout`` of the settings; ValueError for a negative one. Cancelled, it loses
        nothing.
        """
        if timeout_s is None:
            timeout_s = self._config.poll_timeout / 1000
        elif not timeout_s >= 0:
            raise ValueError(f"Timeout must not be negative, found {timeout_s}")
        self._check_running()
        try:
            return await self._take(timeout_s)
        except trio.EndOfChannel:
            raise LocalProtocolError(NOT_RUNNING) from None

    def __aiter__(self) -> LitePullConsumer:
        """Iterate over what polls return, as soon as there is something; it ends with the consumer."""
        return self

    @hands_over
    async def __anext__(self) -> list[MessageExt]:
        """Wait for the next messages; while there are none, automatic commits go on."""
        try:
            while not (messages := await self._take(self._config.auto_commit_interval / 1000)):
                pass
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        return messages

    async def drain(self, timeout_s: float) -> bool:
        """Let the messages of the last poll be finished and leave the group; True if they were within ``timeout_s``.

        They are finished when the program polls again or calls :meth:`commit`. No poll returns anything any more: loops
        over the consumer end, :meth:`poll` raises LocalProtocolError. With ``auto_commit`` finished messages are
        committed then. Leaving takes four seconds at most. ValueError for a negative time.
        """
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s is {timeout_s}, expected a time")
        self._pulled.close()
        with trio.move_on_after(timeout_s) as limit:
            while self._finished is not None:
                await self._finished.wait()
        if not limit.cancelled_caught and self._config.auto_commit and self._member is not None:
            self._member.commit_polled(self._assigned)
        await self._leave()
        return not limit.cancelled_caught

    async def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at an offset of a queue; what has been pulled and not polled is forgotten.

        The next commit commits that offset, unless messages have been polled by then. ClientError for a queue that is
        not assigned, and for an offset that is not between the ends of the queue.
        """
        self._check_assigned(queue)
        lowest, highest = await self.min_offset(queue), await self.max_offset(queue)
        if not lowest <= queue_offset <= highest:
            raise ClientError(
                UNSPECIFIED,
                f"Seek offset illegal, seek offset = {queue_offset}, min offset = {lowest}, max offset = {highest}",
            )
        # Checked again: the queue may have gone meanwhile.
        self._check_assigned(queue).seek(self._namespace.wrap_queue(queue), queue_offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that exists; ClientError for a queue that is not assigned."""
        self._check_assigned(queue)
        lowest = await self.min_offset(queue)
        self._check_assigned(queue).seek(self._namespace.wrap_queue(queue), lowest)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that is sent; ClientError for a queue that is not assigned."""
        self._check_assigned(queue)
        highest = await self.max_offset(queue)
        self._check_assigned(queue).seek(self._namespace.wrap_queue(queue), highest)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling queues; those that are not assigned are ignored.

        What has been pulled, or is in flight, is still polled.
        """
        self._gate.pause(set(self._assigned).intersection(self._namespace.wrap_queues(queues)))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after :meth:`pause`."""
        self._gate.resume_queues(self._namespace.wrap_queues(queues))

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues that are paused, in order."""
        return self._namespace.unwrap_queues(sorted(self._gate.paused))

    # ---- progress -------------------------------------------------------------------------------------------------

    async def commit(
        self, queues: Iterable[MessageQueue] | Mapping[MessageQueue, int] | None = None, *, persist: bool = True
    ) -> None:
        """Commit all that polls have returned, also the last: of all queues, of these, or offsets of your own.

        Queues that are not assigned are ignored. With ``persist`` the offsets are stored when it returns; if a broker
        does not take one, that is logged, and it is stored with the next round. Without, they are stored within
        ``persist_consumer_offset_interval``, or when the consumer leaves. ValueError for a negative offset.
        """
        self._check_running()
        offsets = queues if isinstance(queues, Mapping) else {}
        for queue, queue_offset in offsets.items():
            if queue_offset < 0:
                raise ValueError(f"expected the next offset to read of {queue}, found {queue_offset}")
        if self._member is None:
            return
        wanted = self._assigned if queues is None else self._namespace.wrap_queues(queues)
        for queue, queue_offset in offsets.items():
            self._member.commit_offset(self._namespace.wrap_queue(queue), queue_offset)
        if not isinstance(queues, Mapping):
            self._member.commit_polled(wanted)
        if persist:
            await self._store.persist(wanted)
        self._note_finished()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of a queue, None when the group has none.

        BrokerError, RemotingError or ClientError when it is not known.
        """
        self._check_running()
        queue = self._namespace.wrap_queue(queue)
        known = self._store.table.get(queue)
        return await self._store.fetch(queue) if known is None else known

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest queue offset that still exists."""
        self._check_running()
        return await self._requests.min_offset(self._namespace.wrap_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset that the next message will get."""
        self._check_running()
        return await self._requests.max_offset(self._namespace.wrap_queue(queue))

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a wall time in ms, before or after it."""
        self._check_running()
        return await self._requests.search_offset(self._namespace.wrap_queue(queue), timestamp_ms)

    # ---- private --------------------------------------------------------------------------------------------------

    @property
    def _assigned(self) -> list[MessageQueue]:
        """The queues as brokers know them, in order."""
        return [] if self._member is None else self._member.assigned

    @property
    def _joined(self) -> LitePullMember:
        if self._member is None:
            raise LocalProtocolError("the consumer has no queues yet: expected a call of subscribe or assign before")
        return self._member

    async def _join(self, chosen: ChosenQueues | None) -> None:
        member = LitePullMember(
            instance=self._instance,
            group=self._group,
            config=self._config,
            subscriptions=self._subscriptions,
            chosen=chosen,
            store=self._store,
            queue_requests=self._requests,
            gate=self._gate,
            progress=self._progress,
            pulled=self._pulled,
            nursery=self._nursery,
        )
        with ExitStack() as stack:
            member.membership.register()
            stack.enter_context(self._instance.broker_requests.handling(self._group, member.handlers))
            await member.join()
            self._leaving = stack.pop_all()
        self._member = member

    async def _choose(self, queues: list[MessageQueue]) -> None:
        if self._member is None:
            chosen = ChosenQueues()
            chosen.choose(queues)
            await self._join(chosen)
            return
        assert self._member.chosen is not None, "it has been checked"
        self._member.queues.hand_on_nothing(set(self._member.queues.assigned).difference(queues))
        self._member.chosen.choose(queues)
        self._member.sought.keep_only(queues)
        self._gate.resume_queues(self._gate.paused.difference(queues))
        self._member.rebalance.wake()

    async def _announce_change(self) -> None:
        member = self._joined
        try:
            await member.membership.announce_change()
        finally:
            member.rebalance.wake()

    async def _take(self, timeout_s: float) -> list[MessageExt]:
        await trio.lowlevel.checkpoint()
        self._note_finished()
        self._commit_automatically()
        messages: list[MessageExt] = []
        with trio.move_on_after(timeout_s):
            messages = list(await self._pulled.take())
        if messages:
            self._finished = trio.Event()
            if self._hooks is not None:
                self._hooks.announce_polled(messages)
        return messages

    def _note_finished(self) -> None:
        finished, self._finished = self._finished, None
        if finished is not None:
            finished.set()

    def _commit_automatically(self) -> None:
        now = trio.current_time()
        if self._config.auto_commit and self._member is not None and now >= self._commits_at:
            self._member.commit_polled(self._assigned)
            self._commits_at = now + self._config.auto_commit_interval / 1000

    def _check(self, *, is_chosen: bool) -> None:
        self._check_running()
        if self._member is not None and (self._member.chosen is not None) is not is_chosen:
            raise ClientError(UNSPECIFIED, "Subscribe and assign are mutually exclusive.")

    def _check_running(self) -> None:
        if not self._is_running:
            raise LocalProtocolError(NOT_RUNNING)

    def _check_assigned(self, queue: MessageQueue) -> LitePullMember:
        self._check_running()
        if self._member is None or self._namespace.wrap_queue(queue) not in self._assigned:
            why = ", may be rebalancing" if self._member is not None and self._member.chosen is None else ""
            raise ClientError(UNSPECIFIED, f"The message queue is not in assigned list{why}, message queue: {queue}")
        return self._member

    async def _leave(self) -> None:
        self._pulled.close()
        with trio.CancelScope(shield=True):  # the end of the block waits for a drain that leaves, and bounds its time
            async with self._is_leaving:
                was_running, self._is_running = self._is_running, False
                if self._member is not None and was_running:
                    with self._leaving:
                        await self._member.leave()
