"""Sends messages: ``async with open_producer("127.0.0.1:9876") as producer: await producer.send(Message("T", b"hi"))``.

Rules as in RocketMQ: a failed attempt is repeated on another broker while time is left (three attempts by default), but
only after a transport failure or one of the codes that mean "another broker may do it"; SYSTEM_BUSY is final. A status
other than SEND_OK still means that the message is stored. Another broker is tried after it only with
``retry_another_broker_when_not_store_ok``; if none stores the message better, the last such result is returned. A
message that was repeated may be stored twice: its unique key (``msg_id``) is the same.

Order: messages to one queue are stored in the order in which they were passed to ``send_nowait`` while none fails.
A broker in Java keeps that order only with ``sendMessageThreadPoolNums=1``; by default several threads store what is on
the way, so await each send where the order counts. One that is tried again goes to another broker, after those that
were passed later. With a chosen queue nothing is tried again; the messages after a failed one may be stored.

Compatibility: ``DefaultMQProducerImpl`` (4.9.8). When all attempts have failed, the exception of the last one is raised
unwrapped, with a note that lists the brokers tried. ``send_nowait`` is Java's asynchronous send; its retries go to a
queue that the other broker has, where Java keeps the number of the first queue, and a chosen queue has one attempt,
where Java repeats it on the same broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from rocketpy.client.begun import Done, begun_by
from rocketpy.client.callers import in_chunks
from rocketpy.client.hooks import CheckForbiddenHook, PropertiesHook, SendMessageHook
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.added_properties import AddedProperties
from rocketpy.client.producer.attempt_hooks import AttemptHooks
from rocketpy.client.producer.batching import BATCH_MAX_BYTES, BATCH_MAX_DELAY_MS, BatchingProducer
from rocketpy.client.producer.broker_health import BrokerHealth
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.introduction import introduce
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.pipeline import CONNECT_SECONDS, Pipeline
from rocketpy.client.producer.queue_choice import QueueChoice
from rocketpy.client.producer.reply_requests import ReplyRequests
from rocketpy.client.producer.retry_rules import RetryRules, async_rules, one_attempt, sync_rules
from rocketpy.client.producer.selectors import QueueSelector
from rocketpy.client.producer.send_all import send_all
from rocketpy.client.producer.send_request import SendRequest, SendRequestMaker
from rocketpy.client.producer.send_window import SendWindow
from rocketpy.client.readiness import missing_name_server, wait_until_ready
from rocketpy.client.results import SendResult
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.client.scope import unwrapped
from rocketpy.client.services.timeouts import Timeouts
from rocketpy.client.validators import body_size, check_group
from rocketpy.errors import (
    BrokerError,
    ClientError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingError,
    RemotingTooMuchRequestError,
    RocketpyError,
)
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.namespace import wrap_namespace


@asynccontextmanager
async def producer_role(
    instance: ClientInstance,
    group: str,
    config: ProducerConfig,
    *,
    send_hooks: Sequence[SendMessageHook] = (),
    check_forbidden_hooks: Sequence[CheckForbiddenHook] = (),
    properties_hooks: Sequence[PropertiesHook] = (),
    namespace: str | None = None,
    topics: Sequence[str] = (),
    is_asked: bool = False,
) -> AsyncIterator[Producer]:
    """Open a producer in a client; at the end of the block it is unregistered from the brokers.

    ``namespace`` None is the client's. The brokers of ``topics``, and those that create topics, know the group before
    its first send; ``is_asked`` when they ask it about transactions.

    Leaving the block waits for what ``send_nowait`` has in flight, at most as long as a send may take. Leaving it by
    cancellation does not: what has no answer by then fails.
    """
    namespace = instance.namespace if namespace is None else namespace
    group = wrap_namespace(namespace, group)
    check_group(group)
    hooks = None
    if send_hooks or check_forbidden_hooks:
        hooks = AttemptHooks(
            instance=instance, group=group, send_hooks=send_hooks, check_forbidden_hooks=check_forbidden_hooks
        )
    followed = (config.create_topic_key, *(wrap_namespace(namespace, topic) for topic in topics))
    instance.heartbeats.add_producer(group)
    try:
        async with unwrapped(trio.open_nursery()) as nursery:
            timeouts = Timeouts()
            await nursery.start(timeouts.run)
            nursery.start_soon(partial(introduce, instance, group, followed, is_asked=is_asked))
            producer = Producer(
                instance=instance,
                group=group,
                config=config,
                namespace=namespace,
                hooks=hooks,
                added=AddedProperties(properties_hooks) if properties_hooks else None,
                timeouts=timeouts,
                nursery=nursery,
            )
            try:
                with instance.replies.serving(), instance.routes.following(followed):
                    yield producer
            finally:
                await producer.aclose()
                nursery.cancel_scope.cancel()
    finally:
        await instance.heartbeats.remove_producer(group)


class Producer:
    """Sender of messages. Created by :meth:`Client.producer`; may be used by many tasks concurrently.

    Each send takes ``queue``: a queue, or a selector that chooses one of the topic's. With either there is one attempt.
    """

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: ProducerConfig,
        namespace: str,
        hooks: AttemptHooks | None,
        added: AddedProperties | None,
        timeouts: Timeouts,
        nursery: trio.Nursery,
    ) -> None:
        self._instance = instance
        self._config = config
        self._template = TopicTemplate(config.create_topic_key, config.default_topic_queue_nums)
        self._maker = SendRequestMaker(instance=instance, group=group, config=config, namespace=namespace, added=added)
        health = BrokerHealth(config.latency_max, config.not_available_duration)
        self._choice = QueueChoice(
            randomness=instance.randomness, health=health if config.send_latency_fault_enable else None
        )
        self._hooks = hooks
        self._timeouts = timeouts
        self._pipeline = Pipeline(
            instance=instance,
            template=self._template,
            choice=self._choice,
            timeouts=timeouts,
            hooks=hooks,
            nursery=nursery,
        )
        self._window = SendWindow(
            count_max=config.back_pressure_for_async_send_num, size_max=config.back_pressure_for_async_send_size
        )
        self._sync_rules, self._async_rules = sync_rules(config), async_rules(config)
        self._sync_once, self._async_once = one_attempt(self._sync_rules), one_attempt(self._async_rules)

    def _begin_send(
        self,
        message: Message,
        *,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> Delivery | None:
        return self._begin(self._maker.message(message), queue, timeout_s)

    @begun_by(_begin_send)
    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send one message; return the queue and offset at which it is stored.

        Raises ClientError for a message that cannot be sent, NoRouteError for a topic without route, BrokerError for a
        broker's refusal, RemotingError when no attempt got an answer (the message may be stored or not).
        """
        return await self._send(self._maker.message(message), queue, timeout_s)

    async def send_with(
        self,
        message: Message,
        *,
        properties: Mapping[str, str],
        sys_flag: int = 0,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send one message with properties that a program may not set itself: for roles that are built on producers."""
        request = self._maker.message(message, properties=properties, sys_flag=sys_flag)
        return await self._send(request, queue, timeout_s)

    async def request(
        self,
        message: Message,
        *,
        timeout_s: float,
        queue: MessageQueue | QueueSelector | None = None,
    ) -> MessageExt:
        """Send a message and return the reply that its consumer sends (``reply_to``), all in ``timeout_s`` seconds.

        Raises NoReplyError when the message is stored but no reply comes in time, and ClientError -1, caused by what
        :meth:`send` raises and with its text, when it is not sent.
        """

        async def send(request: SendRequest, seconds: float) -> None:
            rules = attrs.evolve(self._async_rules, timeout_s=seconds)
            await self._deliver(request, queue, rules, one_attempt(rules))

        requests = ReplyRequests(instance=self._instance, maker=self._maker, template=self._template)
        return await requests.request(message, timeout_s, send)

    def _begin_send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> Delivery | None:
        return self._begin(self._maker.batch(messages), queue, timeout_s)

    @begun_by(_begin_send_batch)
    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request: all are stored, consecutively in one queue, or none.

        Raises as :meth:`send`; a batch cannot hold delayed messages or more than ``max_message_size`` bytes.
        """
        return await self._send(self._maker.batch(messages), queue, timeout_s)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> None:
        """Send a message without an answer; it may be lost, and nothing tells.

        Waits only for the route and the connection, and raises what they raise.
        """
        request = self._maker.message(message)
        if request.needs_thread:
            await request.compress_in_thread()
        delivery = self._delivery(request, queue, self._sync_rules, self._sync_once)
        with trio.move_on_after(self._config.send_msg_timeout / 1000):
            await self._send_oneway(delivery)
            return
        failure = RemotingConnectError(f"no route or connection for a oneway send to topic {message.topic} in time")
        self._report_oneway(delivery, failure)
        raise failure

    def send_nowait(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> PendingSend:
        """Send a message without waiting; await the result for its outcome, when you like.

        Raises ClientError for a message that cannot be sent, and RemotingTooMuchRequestError when too many messages or
        bytes are in flight: :meth:`send_soon` waits instead.
        """
        size = body_size(message)
        if not self._window.has_room(size):
            raise RemotingTooMuchRequestError(f"executor rejected: no room for {size} bytes in {self._window!r}")
        request = self._maker.message(message)
        self._window.enter(size)
        return self._start_windowed(request, queue)

    def _begin_send_soon(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> Done | None:
        if not self._window.has_room(body_size(message)):
            return None
        return Done(self.send_nowait(message, queue=queue))

    @begun_by(_begin_send_soon)
    async def send_soon(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> PendingSend:
        """Wait until there is room for a message, then send it as :meth:`send_nowait` does.

        Tasks get room in the order in which they came. Cancelled, it has sent nothing.
        """
        request = self._maker.message(message)
        await self._window.wait_and_enter(request.size)
        return self._start_windowed(request, queue)

    @in_chunks
    async def send_all(
        self, messages: Iterable[Message], *, queue: MessageQueue | QueueSelector | None = None
    ) -> list[SendResult]:
        """Send all messages of an iterable, many at once, as :meth:`send_soon` does; return their results in order.

        Raises the first failure as :meth:`send`, once no message is in flight any more; those that the iterable has
        left are not sent. Messages of one queue may be stored in another order after a repeated attempt. Cancelled, it
        does not wait for what is in flight. In plain code the iterable is read in the caller's thread.
        """
        return await send_all(partial(self.send_soon, queue=queue), messages)

    @asynccontextmanager
    async def batching(
        self, *, batch_max_delay_ms: float = BATCH_MAX_DELAY_MS, batch_max_bytes: int = BATCH_MAX_BYTES
    ) -> AsyncIterator[BatchingProducer]:
        """Collect messages for some milliseconds or bytes and send them as batches.

        Leaving the block sends what is collected and waits for the answers; cancelled, it only sends.
        """
        batching = BatchingProducer(
            maker=self._maker,
            known_queues=self._known_queues,
            find_queues=self.publish_queues,
            start=self._pipeline.start,
            timer=self._timeouts,
            window=self._window,
            rules=self._sync_rules,
            max_delay_ms=batch_max_delay_ms,
            max_bytes=batch_max_bytes,
        )
        try:
            yield batching
        finally:
            await batching.aclose()

    async def wait_ready(self, timeout_s: float, *topics: str) -> None:
        """Return when a nameserver answers and messages of these topics can be sent; NotReadyError if not in time.

        A topic that brokers create on their own can be sent. ``missing`` of the error says what is not there, and why.
        """

        async def missing() -> list[str]:
            found = await missing_name_server(self._instance)
            for topic in topics if not found else ():
                try:
                    await self.publish_queues(topic)
                except RocketpyError as failure:
                    found.append(str(failure))
            return found

        await wait_until_ready(self._instance, timeout_s, missing)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that :meth:`send` chooses from."""
        wrapped = wrap_namespace(self._maker.namespace, topic)
        queues = await self._instance.routes.publish_queues(wrapped, self._template)
        return [MessageQueue(topic, each.broker_name, each.queue_id) for each in queues]

    async def aclose(self) -> None:
        """Wait for what is in flight, then refuse more; what has no answer when this is cancelled fails."""
        try:
            await self._window.wait_empty()
        finally:
            self._pipeline.close()

    # ---- private --------------------------------------------------------------------------------------------------

    def _known_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that :meth:`send` chooses from, none while they are not known."""
        queues = self._instance.routes.table.publish_queues(wrap_namespace(self._maker.namespace, topic))
        return [MessageQueue(topic, each.broker_name, each.queue_id) for each in queues]

    def _begin(
        self, request: SendRequest, queue: MessageQueue | QueueSelector | None, timeout_s: float | None
    ) -> Delivery | None:
        """Begin a send; None when it has to wait before that."""
        if request.needs_thread:
            return None
        delivery = self._delivery(request, queue, *self._rules(timeout_s))
        self._pipeline.start(delivery)
        return delivery

    async def _send(
        self, request: SendRequest, queue: MessageQueue | QueueSelector | None, timeout_s: float | None
    ) -> SendResult:
        return await self._deliver(request, queue, *self._rules(timeout_s))

    def _rules(self, timeout_s: float | None) -> tuple[RetryRules, RetryRules]:
        """Return the rules of a send that waits for its answer: in general, and with a single attempt."""
        if timeout_s is None:
            return self._sync_rules, self._sync_once
        rules = sync_rules(self._config, timeout_s)
        return rules, one_attempt(rules)

    async def _deliver(
        self, request: SendRequest, queue: MessageQueue | QueueSelector | None, rules: RetryRules, once: RetryRules
    ) -> SendResult:
        delivery = self._delivery(request, queue, rules, once)
        if request.needs_thread:
            await request.compress_in_thread()
        self._pipeline.start(delivery)
        try:
            return await delivery.pending.wait()
        finally:
            delivery.abandon()

    def _start_windowed(self, request: SendRequest, queue: MessageQueue | QueueSelector | None) -> PendingSend:
        """Start a send that the window has counted."""
        try:
            delivery = self._delivery(
                request, queue, self._async_rules, self._async_once, is_async=True, on_end=self._leave_window
            )
            self._pipeline.start(delivery)
        except ClientError:
            self._window.leave(request.size)
            raise
        return delivery.pending

    def _leave_window(self, delivery: Delivery) -> None:
        self._window.leave(delivery.request.size)

    def _delivery(
        self,
        request: SendRequest,
        queue: MessageQueue | QueueSelector | None,
        rules: RetryRules,
        once: RetryRules,
        *,
        is_async: bool = False,
        on_end: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        if queue is None:
            return Delivery(request, rules, is_async=is_async, on_end=on_end)
        if not isinstance(queue, MessageQueue):
            return Delivery(request, once, selector=queue, is_async=is_async, on_end=on_end)
        queue = self._maker.wrapped(queue)
        if queue.topic != request.topic:
            raise ClientError(
                ResponseCode.MESSAGE_ILLEGAL, f"message's topic not equal mq's topic: {request.topic} and {queue.topic}"
            )
        return Delivery(request, once, queue=queue, is_async=is_async, on_end=on_end)

    async def _send_oneway(self, delivery: Delivery) -> None:
        delivery.began = trio.current_time()
        chosen = delivery.queue
        try:
            if chosen is None:
                topic = delivery.request.topic
                queues = await self._instance.routes.publish_queues(topic, self._template)
                chosen = delivery.select(queues) if delivery.selector else self._choice.choose(topic, queues, None)
            delivery.chosen = chosen
            address = self._instance.broker_port_of(await self._instance.routes.publish_address(chosen))
            delivery.address = address
            await self._instance.remoting.connect(address, CONNECT_SECONDS)
        except (ClientError, BrokerError, RemotingError, RemoteProtocolError) as failure:
            self._report_oneway(delivery, failure)
            raise
        if self._hooks is not None:
            self._hooks.before(delivery, oneway=True)
        try:
            await self._instance.remoting.oneway(address, delivery.request.command(chosen, oneway=True))
        except RemotingError as failure:
            self._report_oneway(delivery, failure)
            raise
        self._report_oneway(delivery)

    def _report_oneway(self, delivery: Delivery, failure: Exception | None = None) -> None:
        if self._hooks is not None:
            self._hooks.after(delivery, failure=failure, oneway=True)
