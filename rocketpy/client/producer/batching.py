"""Batches made of single sends: messages of a topic (and queue) are collected for some milliseconds or kilobytes.

Each message has a result of its own, with its own offset. A batch leaves when the next message would make it too long,
or when its time is over; a message that is longer than a batch leaves alone, as an ordinary message, after what was
collected before it.

Rule: messages of one topic and queue leave in the order in which they were passed, those without a queue in the order
of their topic. As with any pipelined send this is their order in the queue as long as nothing fails: a batch that is
tried again goes to another broker, one with a chosen queue is not tried again.

A selector chooses the queue when its message is passed, and the message is collected for that queue. Where the queues
of the topic are not known yet, :meth:`BatchingProducer.send_nowait` sends it alone, after what was collected for the
topic.

A batch that the program has encoded itself (:class:`EncodedBatch`) leaves at once, after what was collected for the
same topic and queue.

The settings have the names and defaults of RocketMQ 5 (``ProduceAccumulator``); 4.9 has no such thing. A delayed
message cannot be in a batch and is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import trio

from rocketpy.client.begun import Done, begun_by
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.retry_rules import RetryRules, one_attempt
from rocketpy.client.producer.selectors import QueueSelector, select_queue
from rocketpy.client.producer.send_request import SendRequest, SendRequestMaker
from rocketpy.client.producer.send_window import SendWindow
from rocketpy.client.results import SendResult
from rocketpy.client.services.timeouts import Expiring
from rocketpy.client.validators import UNSPECIFIED, body_size
from rocketpy.errors import ClientError, RemotingTooMuchRequestError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.properties import (
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
)

BATCH_MAX_DELAY_MS = 10
BATCH_MAX_BYTES = 32 * 1024
BATCH_MESSAGES_MAX = 1000
"""Messages of one batch; a broker decodes more of them one by one."""

Key = tuple[str, MessageQueue | None, str]
"""Topic, queue and WAIT: what the messages of a batch share."""


class Timer(Protocol):
    """Expires batches; :class:`~rocketpy.client.services.timeouts.Timeouts` does."""

    def start(self, entry: Expiring, duration_s: float) -> None:
        """Expire an entry after so many seconds."""
        ...

    def stop(self, entry: Expiring, duration_s: float) -> None:
        """Forget an entry."""
        ...


class _Batch:
    """Messages that are collected; sends itself when its time is over."""

    __slots__ = ("_flush", "items", "key", "keyed", "pending", "size")

    def __init__(self, key: Key, flush: Callable[[_Batch], None]) -> None:
        self.key = key
        self.keyed: list[tuple[Message, dict[str, str]]] = []
        self.items: list[bytes] = []
        self.pending: list[PendingSend] = []
        self.size = 0
        self._flush = flush

    def expire(self) -> None:
        self._flush(self)


class BatchingProducer:
    """Sends messages in batches. Created by :meth:`Producer.batching`; may be used by many tasks concurrently."""

    def __init__(
        self,
        *,
        maker: SendRequestMaker,
        known_queues: Callable[[str], Sequence[MessageQueue]],
        find_queues: Callable[[str], Awaitable[object]],
        start: Callable[[Delivery], None],
        timer: Timer,
        window: SendWindow,
        rules: RetryRules,
        max_delay_ms: float,
        max_bytes: int,
    ) -> None:
        if max_delay_ms <= 0 or max_bytes <= 0:
            raise ClientError(
                UNSPECIFIED, f"a batch needs some time and bytes, found {max_delay_ms:g} ms and {max_bytes} bytes"
            )
        self._maker = maker
        self._known_queues = known_queues
        self._find_queues = find_queues
        self._start = start
        self._timer = timer
        self._window = window
        self._rules, self._once = rules, one_attempt(rules)
        self._max_delay_s = max_delay_ms / 1000
        self._max_bytes = min(max_bytes, maker.config.max_message_size)
        self._collected: dict[Key, _Batch] = {}
        self._under_way = 0
        self._ended = trio.Event()
        self._is_closed = False

    async def send(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> SendResult:
        """Send a message in a batch; return the offset at which it is stored. Waits for room, the batch, the answer.

        Raises as :meth:`Producer.send`. Cancelled while it waits for the answer, the message is sent all the same.
        """
        return await (await self.send_soon(message, queue=queue))

    def send_nowait(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> PendingSend:
        """Send a message in a batch without waiting; await the result for its outcome, when you like.

        Raises ClientError for a message that no batch can hold, and RemotingTooMuchRequestError when too many messages
        or bytes are in flight.
        """
        size = body_size(message)
        if not self._window.has_room(size):
            raise RemotingTooMuchRequestError(f"executor rejected: no room for {size} bytes in {self._window!r}")
        self._check(message, queue)
        self._window.enter(size)
        return self._collect(message, queue)

    def _begin_send_soon(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> Done | None:
        if not self._window.has_room(body_size(message)) or self._must_ask(message, queue):
            return None
        return Done(self.send_nowait(message, queue=queue))

    @begun_by(_begin_send_soon)
    async def send_soon(self, message: Message, *, queue: MessageQueue | QueueSelector | None = None) -> PendingSend:
        """Wait until there is room for a message, then send it as :meth:`send_nowait` does."""
        self._check(message, queue)
        if self._must_ask(message, queue):
            await self._find_queues(message.topic)
        await self._wait_for_room(len(message.body))
        return self._collect(message, queue)

    def _begin_send_encoded(self, batch: EncodedBatch, *, queue: MessageQueue | None = None) -> Done | None:
        if not self._window.has_room(len(batch.body)):
            return None
        request = self._checked_request(batch, queue)
        self._window.enter(len(batch.body))
        return Done(self._send_whole(request, queue))

    @begun_by(_begin_send_encoded)
    async def send_encoded(self, batch: EncodedBatch, *, queue: MessageQueue | None = None) -> PendingSend:
        """Wait until there is room, then send a batch that the program has encoded. The window counts it as one.

        The result is that of the batch: ``queue_offset`` is its first message's, the others follow. Raises ClientError
        for an illegal topic, an empty body or one above ``max_message_size``.
        """
        request = self._checked_request(batch, queue)
        await self._wait_for_room(len(batch.body))
        return self._send_whole(request, queue)

    def flush(self) -> None:
        """Send what is collected now."""
        for batch in list(self._collected.values()):
            self._send_batch(batch)

    async def aclose(self) -> None:
        """Send what is collected, refuse more, and wait for the answers."""
        self._is_closed = True
        self.flush()
        while self._under_way:
            self._ended = trio.Event()
            await self._ended.wait()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _wait_for_room(self, size: int) -> None:
        """Wait until the window has room, and count a message; ClientError when the block has ended meanwhile."""
        await self._window.wait_and_enter(size)
        if self._is_closed:  # nothing waits for what is collected now
            self._window.leave(size)
            self._check_open()

    def _must_ask(self, message: Message, queue: MessageQueue | QueueSelector | None) -> bool:
        """Whether a selector has no queues to choose from yet."""
        is_selector = queue is not None and not isinstance(queue, MessageQueue)
        return is_selector and not self._known_queues(message.topic)

    def _check(self, message: Message, queue: MessageQueue | QueueSelector | None) -> None:
        self._check_open()
        self._maker.check_batchable(message)
        _check_same_topic(message.topic, queue)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientError(UNSPECIFIED, "the batching producer is closed")

    def _checked_request(self, batch: EncodedBatch, queue: MessageQueue | None) -> SendRequest:
        self._check_open()
        request = self._maker.encoded_batch(batch)
        _check_same_topic(batch.topic, queue)
        return request

    def _send_whole(self, request: SendRequest, queue: MessageQueue | None) -> PendingSend:
        """Send a request, which the window has counted as one; its result is not divided."""
        self._send_others(request.message.topic, queue)
        pending = PendingSend()

        def share(result: SendResult | None, failure: Exception | None) -> None:
            if result is None:
                assert failure is not None
                pending.fail(failure, request.message.topic)
            else:
                pending.succeed(result)

        self._send(request, queue, share, size=request.size, count=1)
        return pending

    def _collect(self, message: Message, wanted: MessageQueue | QueueSelector | None) -> PendingSend:
        """Add a message, which the window has counted, to its batch."""
        try:
            if self._must_ask(message, wanted):
                return self._send_alone(message, wanted)
            queue = self._chosen(message, wanted)
            properties = self._maker.with_own_properties(message)
            item = self._maker.batch_item(message, properties)
        except ClientError:
            self._window.leave(len(message.body))
            raise
        key = (message.topic, queue, properties[PROPERTY_WAIT_STORE_MSG_OK])
        batch = self._collected.get(key)
        size = len(item)
        if batch is not None and (batch.size + size > self._max_bytes or len(batch.items) >= BATCH_MESSAGES_MAX):
            self._send_batch(batch)
            batch = None
        if size > self._max_bytes:
            self._send_others(message.topic, queue)
            return self._send_alone(message, queue, properties)
        if batch is None:
            self._send_others(message.topic, queue)
            batch = self._collected[key] = _Batch(key, self._send_batch)
            self._timer.start(batch, self._max_delay_s)
        pending = PendingSend()
        batch.keyed.append((message, properties))
        batch.items.append(item)
        batch.pending.append(pending)
        batch.size += size
        return pending

    def _send_others(self, topic: str, queue: MessageQueue | None) -> None:
        """Send what was collected for the same topic and queue with another WAIT: it came earlier."""
        for wait in ("true", "false"):
            other = self._collected.get((topic, queue, wait))
            if other is not None:
                self._send_batch(other)

    def _chosen(self, message: Message, queue: MessageQueue | QueueSelector | None) -> MessageQueue | None:
        """Return the queue that a selector chooses; ClientError when it fails."""
        if queue is None or isinstance(queue, MessageQueue):
            return queue
        return select_queue(queue, self._known_queues(message.topic), message)

    def _send_alone(
        self, message: Message, queue: MessageQueue | QueueSelector | None, own: dict[str, str] | None = None
    ) -> PendingSend:
        """Send a message that is in no batch; what a selector may overtake leaves before it."""
        pending = PendingSend()
        if queue is not None and not isinstance(queue, MessageQueue):
            for batch in [each for each in self._collected.values() if each.key[0] == message.topic]:
                self._send_batch(batch)
        request = self._maker.message(message, own=own)
        share = partial(_share, [(message, {})], [pending], is_batch=False)
        self._send(request, queue, share, size=len(message.body), count=1)
        return pending

    def _send_batch(self, batch: _Batch) -> None:
        del self._collected[batch.key]
        self._timer.stop(batch, self._max_delay_s)
        request = self._maker.batch_of(batch.keyed, batch.items)
        share = partial(_share, batch.keyed, batch.pending, is_batch=True)
        size = sum([len(message.body) for message, _ in batch.keyed])
        self._send(request, batch.key[1], share, size=size, count=len(batch.keyed))

    def _send(
        self,
        request: SendRequest,
        wanted: MessageQueue | QueueSelector | None,
        share: Callable[[SendResult | None, Exception | None], None],
        *,
        size: int,
        count: int,
    ) -> None:
        """Start a request; ``size`` and ``count`` are what it has in the window."""

        def end(delivery: Delivery) -> None:
            self._window.leave(size, count)
            self._under_way -= 1
            self._ended.set()

        rules = self._rules if wanted is None else self._once
        if isinstance(wanted, MessageQueue):
            delivery = Delivery(request, rules, queue=self._maker.wrapped(wanted), is_async=True, on_end=end)
        else:
            delivery = Delivery(request, rules, selector=wanted, is_async=True, on_end=end)
        delivery.pending.then(share)
        self._under_way += 1
        try:
            self._start(delivery)
        except RocketpyError as failure:  # the producer is closed
            end(delivery)
            share(None, failure)


def _check_same_topic(topic: str, queue: MessageQueue | QueueSelector | None) -> None:
    if isinstance(queue, MessageQueue) and queue.topic != topic:
        raise ClientError(
            ResponseCode.MESSAGE_ILLEGAL, f"message's topic not equal mq's topic: {topic} and {queue.topic}"
        )


def _share(
    keyed: list[tuple[Message, dict[str, str]]],
    pending: list[PendingSend],
    result: SendResult | None,
    failure: Exception | None,
    *,
    is_batch: bool,
) -> None:
    """Give each message its part of the result of the request."""
    if result is None:
        assert failure is not None
        for each in pending:
            each.fail(failure, keyed[0][0].topic)
        return
    if not is_batch:
        pending[0].succeed(result)
        return
    offset_msg_ids = result.offset_msg_id.split(",")
    if len(offset_msg_ids) != len(pending):  # all are stored, whatever this broker calls them
        offset_msg_ids = [""] * len(pending)
    for index, each in enumerate(pending):
        each.succeed(
            SendResult(
                result.status,
                keyed[index][1][PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX],
                offset_msg_ids[index],
                result.message_queue,
                result.queue_offset + index,
                result.region_id,
                result.transaction_id,
                result.trace_on,
            )
        )
