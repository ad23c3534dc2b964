"""All queues of a topic as one stream of messages: ``async with consumer.open_messages("T") as messages``.

One task per queue prefetches a bounded number of pulls; :class:`MessageStream` yields their messages one by one, each
queue in order. Rule: a message counts as processed when the next one is requested, and :meth:`MessageStream.commit`
commits only processed messages.

While it follows a topic, a stream survives failures of brokers and nameservers: it retries, and adds new queues. With
an end it raises instead, because the caller relies on having read everything.

Compatibility: the nearest thing in RocketMQ is ``DefaultLitePullConsumer`` with ``assign`` (4.9.8).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import attrs
import trio

from rocketpy.client.callers import taken_when_ready, told_caller
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.start import Start, StartKind
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.client.scope import unwrapped
from rocketpy.client.states import Trouble
from rocketpy.containment import Contained
from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue

PULLS_AHEAD_MAX = 16
"""Prefetched pull results that wait for the reader; every queue's task holds one more."""

FRUITLESS_PAUSE_SECONDS = 0.1
"""Pause after a pull that returned nothing at once, because a broker need not hold pulls."""

STANDING_MAX = 100
"""Pulls in a row without progress after which a stream with an end fails."""

PASSING_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
    )
)

_log = logging.getLogger("rocketpy.client")

Watch = Callable[[MessageQueue, int], Continuity]
"""Returns what finds out whether a queue that is read from an offset on has lost its tail."""

_Progress = tuple[int, Continuity | None]
"""The offset up to which a queue is processed, and the reading of the queue that it is of."""


class QueueSource(Protocol):
    """Interface that a stream needs from a consumer."""

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic."""
        ...

    async def pull(
        self, queue: MessageQueue, queue_offset: int, *, expression: str = "*", suspend_ms: int = 0
    ) -> PullResult:
        """Pull once."""
        ...

    async def start_offset(self, queue: MessageQueue, start: Start) -> int:
        """Return the queue offset to begin at."""
        ...

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the current end of a queue."""
        ...

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """Record progress."""
        ...


@attrs.frozen(kw_only=True)
class StreamPlan:
    """Topic, range and timing of a stream; ``queues`` None means all, new ones included."""

    topic: str
    queues: Sequence[MessageQueue] | None
    start: Start
    expression: str
    until_end: bool
    suspend_ms: int
    retry_pause_s: float
    new_queues_interval_s: float


@asynccontextmanager
async def open_message_stream(source: QueueSource, plan: StreamPlan, watch: Watch) -> AsyncIterator[MessageStream]:
    """Determine the start offsets, start pulling and yield the stream; its tasks end with the block.

    A message sent after entering the block is in the stream, also with :meth:`Start.end`. ``watch`` is called for each
    queue that is followed.
    """
    async with unwrapped(trio.open_nursery()) as nursery:
        send, receive = trio.open_memory_channel[_Pulled](PULLS_AHEAD_MAX)
        readers = _Readers(source=source, plan=plan, watch=watch, send=send)
        stream = MessageStream(source=source, readers=readers, receive=receive)
        try:
            await readers.locate()
            nursery.start_soon(readers.run)
            yield stream
        finally:
            nursery.cancel_scope.cancel()


class MessageStream:
    """Iterator over messages, for one task. Created by ``PullConsumer.open_messages``.

    Plain code takes messages that are here in its own threads, so what says how far it is has a lock.
    """

    def __init__(self, *, source: QueueSource, readers: _Readers, receive: trio.MemoryReceiveChannel[_Pulled]) -> None:
        self._source = source
        self._readers = readers
        self._receive = receive
        self._current: _Pulled | None = None
        self._index = 0  # in _current, of the next message to yield
        self._processed = 0  # how many of _current were, when another one was asked for that was not there yet
        self._handed_to: object = None  # the caller that received the last message
        self._lock = threading.Lock()  # for all above and _done; nothing awaits while it is held
        # Offsets, each with what says whether it counts: not once its queue has lost the tail that it is of.
        self._done: dict[MessageQueue, _Progress] = {}
        self._committed: dict[MessageQueue, _Progress] = {}

    def __aiter__(self) -> MessageStream:
        return self

    def _take_ready(self, caller: object) -> MessageExt | None:
        with self._lock:
            pulled, index = self._current, self._index
            if pulled is None or index == len(pulled.messages):
                return None
            self._index = index + 1
            self._handed_to = caller
            return pulled.messages[index]

    async def _wait_ready(self) -> None:
        with self._lock:
            self._processed = self._index
            self._settle(self._index)
            pulled = self._current
        if pulled is None or self._index == len(pulled.messages):
            pulled = await self._next_pulled()
            with self._lock:
                self._current, self._index, self._processed = pulled, 0, 0
                self._settle(0)

    @taken_when_ready(_take_ready, _wait_ready)
    async def __anext__(self) -> MessageExt:
        """Return the next message; raises the failure of a queue's task after the messages that came before it."""
        caller = trio.lowlevel.current_task()
        while (message := self._take_ready(caller)) is None:
            await self._wait_ready()
        return message

    @property
    def has_ready(self) -> bool:
        """Whether the next message has already been pulled; while it has, output need not be flushed."""
        if self._current is not None and self._index < len(self._current.messages):
            return True
        return self._receive.statistics().current_buffer_used > 0

    async def _commit_for(self, caller: object, *, with_last: bool | None = None) -> None:
        with self._lock:
            if with_last is None:
                with_last = caller is not None and self._handed_to is caller
            self._settle(self._index if with_last else max(self._index - 1, self._processed))
            done = list(self._done.items())
        for queue, progress in done:
            consumer_offset, continuity = progress
            if await self._readers.may_commit(queue, continuity) and self._committed.get(queue) != progress:
                await self._source.commit(queue, consumer_offset)
                self._committed[queue] = progress

    @told_caller(_commit_for)
    async def commit(self, *, with_last: bool | None = None) -> None:
        """Commit the offsets of the processed messages, for the queues where they have changed.

        The last message counts as processed too if the task that received it calls: Trio's or asyncio's, or in plain
        code the thread. For any other, one that commits every few seconds perhaps, it is still being processed.
        ``with_last`` overrides that: False when processing it failed, True when another task knows that it is
        processed. Raises as ``PullConsumer.commit``.
        """
        await self._commit_for(trio.lowlevel.current_task(), with_last=with_last)

    async def _next_pulled(self) -> _Pulled:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            pass
        if self._readers.failure is not None:
            raise self._readers.failure
        raise StopAsyncIteration

    def _settle(self, count: int) -> None:
        """Mark the first messages of the last pull as processed. Those of earlier pulls are."""
        pulled = self._current
        if pulled is None:
            return
        if count == len(pulled.messages):
            self._done[pulled.queue] = pulled.next_begin_offset, pulled.continuity
        elif count > 0:
            self._done[pulled.queue] = pulled.messages[count - 1].queue_offset + 1, pulled.continuity


@attrs.frozen
class _Pulled:
    """Result of one pull, perhaps only the fact that no message matches before ``next_begin_offset``."""

    queue: MessageQueue
    messages: tuple[MessageExt, ...]
    next_begin_offset: int
    continuity: Continuity | None


@attrs.frozen
class _Stretch:
    """The range of a queue that one task reads."""

    queue: MessageQueue
    begin: int
    end: int | None


class _Readers:
    """The tasks of one stream. They end together: by failing, by reaching their ends or by cancellation."""

    def __init__(
        self, *, source: QueueSource, plan: StreamPlan, watch: Watch, send: trio.MemorySendChannel[_Pulled]
    ) -> None:
        self.failure: RocketpyError | None = None
        self._source = source
        self._continuity = watch
        self._plan = plan
        self._send = send
        self._stretches: list[_Stretch] = []
        self._continuities: dict[MessageQueue, Continuity] = {}
        self._scope = trio.CancelScope()

    async def locate(self) -> None:
        """Determine the start offset of every queue and, if the stream has an end, the end offset."""
        queues = self._plan.queues
        if queues is None:
            queues = await self._source.queues(self._plan.topic)
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(self._locate_queue, queue)
        if self.failure is not None:
            raise self.failure

    async def run(self) -> None:
        """Read all queues; the channel closes when all have ended."""
        with self._scope, self._send:  # not `async with`: closing must not be a checkpoint that loses a failure
            async with trio.open_nursery() as nursery:
                for stretch in self._stretches:
                    nursery.start_soon(self._read, stretch)
                if not self._plan.until_end and self._plan.queues is None:
                    nursery.start_soon(self._take_in_new_queues, nursery)
                elif not self._plan.until_end:
                    await trio.sleep_forever()

    async def _locate_queue(self, queue: MessageQueue) -> None:
        try:
            begin = await self._source.start_offset(queue, self._plan.start)
            end = await self._source.max_offset(queue) if self._plan.until_end else None
        except RocketpyError as failure:
            self.failure = self.failure or failure
        else:
            self._stretches.append(_Stretch(queue, begin, end))

    async def _read(self, stretch: _Stretch) -> None:
        queue, position, end = stretch.queue, stretch.begin, stretch.end
        trouble = Trouble(f"pulling from {queue.broker_name} queue {queue.queue_id}")
        continuity = None if end is not None else self._watch(queue, position)
        standing = 0  # pulls in a row that have moved the position nowhere, or only to where the broker said
        while end is None or position < end:
            asked_at = trio.current_time()
            try:
                if continuity is not None:
                    if not await continuity.may_read():
                        assert continuity.fallback is not None, "that is why it may not"
                        continuity = self._watch(queue, continuity.fallback)
                    position = continuity.next_offset
                result = await self._source.pull(
                    queue,
                    position,
                    expression=self._plan.expression,
                    suspend_ms=0 if self._plan.until_end else self._plan.suspend_ms,
                )
                is_standing = result.status is PullStatus.OFFSET_ILLEGAL or result.next_begin_offset == position
                standing = standing + 1 if is_standing else 0
                if end is not None and standing > STANDING_MAX:
                    raise RemoteProtocolError(
                        f"pulling from {queue.broker_name} queue {queue.queue_id}: expected to reach offset {end}, "
                        f"found {result.status.name} at {position} after {standing} pulls"
                    )
            except RocketpyError as failure:
                if end is not None or not _may_pass(failure):
                    self.failure = self.failure or failure
                    self._scope.cancel()
                    return
                trouble.begin(failure)
                await trio.sleep(self._plan.retry_pause_s)
                continue
            trouble.end()
            if continuity is not None:
                if not continuity.may_take:
                    continue  # it may be of another run of the broker, or of a master that is none any more
                continuity.note(result.messages, result.next_begin_offset)
            messages = tuple(each for each in result.messages if self._is_wanted(each, end))
            if messages or result.next_begin_offset != position:
                await self._send.send(_Pulled(queue, messages, _least(result.next_begin_offset, end), continuity))
            elif result.status is PullStatus.NO_NEW_MSG and end is not None:
                return
            if standing and trio.current_time() - asked_at < FRUITLESS_PAUSE_SECONDS:
                await trio.sleep(FRUITLESS_PAUSE_SECONDS)
            position = result.next_begin_offset

    async def may_commit(self, queue: MessageQueue, continuity: Continuity | None) -> bool:
        """Return whether progress of a queue counts at its broker; RocketpyError when that is not known.

        It does not if the queue is read again since, because its tail was lost.
        """
        if continuity is not self._continuities.get(queue):
            return False
        return continuity is None or await continuity.may_commit()

    def _watch(self, queue: MessageQueue, queue_offset: int) -> Continuity:
        continuity = self._continuity(queue, queue_offset)
        continuity.assume()
        self._continuities[queue] = continuity
        return continuity

    def _is_wanted(self, message: MessageExt, end: int | None) -> bool:
        if end is not None and message.queue_offset >= end:
            return False
        # A broker finds the message *nearest* to a time, perhaps one that was stored before it.
        start = self._plan.start
        return start.kind is not StartKind.TIME or message.store_timestamp >= start.value

    async def _take_in_new_queues(self, nursery: trio.Nursery) -> None:
        """Add queues that the topic gets while it is followed.

        All of a new queue is new, so it is read from its beginning. But it may only be new here, because its broker was
        away when the stream was opened: where the group has progress, it resumes there.
        """
        is_stored = self._plan.start.kind is StartKind.STORED
        start = Start.stored() if is_stored else Start.beginning()
        known = {stretch.queue for stretch in self._stretches}
        trouble = Trouble(f"looking for new queues of {self._plan.topic}")
        while True:
            await trio.sleep(self._plan.new_queues_interval_s)
            with Contained(_log, "looking for new queues of %s", self._plan.topic):
                try:
                    found = [queue for queue in await self._source.queues(self._plan.topic) if queue not in known]
                    for queue in found:
                        begin = await self._source.start_offset(queue, start)
                        nursery.start_soon(self._read, _Stretch(queue, begin, None))
                        known.add(queue)
                except RocketpyError as failure:
                    trouble.begin(failure)
                else:
                    trouble.end()


def _may_pass(failure: RocketpyError) -> bool:
    """Whether a retry can help: the peer is unreachable or busy, rather than refusing."""
    if isinstance(failure, BrokerError):
        return failure.response_code in PASSING_CODES
    return isinstance(failure, RemotingError | ClientError)


def _least(position: int, end: int | None) -> int:
    return position if end is None else min(position, end)
