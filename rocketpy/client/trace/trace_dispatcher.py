"""Sends what the hooks of a role have recorded to the trace topic: in the background, in batches.

Recording costs an entry in a queue. Half a second after the first record, or when the queue is half full, all records
are encoded and sent, as many to a message as fit. A message is found by the ids and keys of all its records.

Rule: a trace never holds anything up, and memory for it is bounded: up to 1024 entries (16384 records) wait, ten
messages are in flight, and what comes while there is no room is dropped and counted. When the role ends, what waits is
sent, which takes at most three seconds; what has no answer then may be lost, and is counted as well.

Compatibility: ``AsyncTraceDispatcher`` (4.9.8). Traces travel over the connections of the role's own client, Java's
dispatcher has a client of its own. A message is also full when its keys are: Java's would be refused.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Protocol

import attrs
import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import producer_role
from rocketpy.client.results import SendResult
from rocketpy.client.scope import unwrapped
from rocketpy.client.trace.trace_data import TraceRecord, keys_of, write_trace
from rocketpy.client.validators import check_group
from rocketpy.containment import Contained
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import PROPERTY_KEYS
from rocketpy.protocol.topic_name import TRACE_TOPIC

GROUP_NAME_PREFIX = "_INNER_TRACE_PRODUCER"
QUEUE_ENTRIES_MAX = 1024
QUEUE_RECORDS_MAX = 16 * QUEUE_ENTRIES_MAX
WAIT_TIME_THRESHOLD_SECONDS = 0.5
SENDERS = 10
SEND_TIMEOUT_MS = 5_000
MESSAGE_BYTES_MAX = 128_000
KEYS_FULL_BYTES = 28_000
"""Limit of the keys of a message: properties have 32767 bytes, others are among them."""
_GROUP_LENGTH_MAX = 200
FLUSH_SECONDS = 3.0
"""Time that the end of a role may wait for traces."""

_log = logging.getLogger("rocketpy.client")


class TraceRole(Enum):
    """Whose traces a dispatcher sends; part of the name of its group."""

    PRODUCE = "PRODUCE"
    CONSUME = "CONSUME"


class TraceSender(Protocol):
    """The part of a producer that a dispatcher uses."""

    async def send(self, message: Message) -> SendResult:
        """Send one message; RocketpyError when it may not have been stored."""
        ...


@attrs.frozen
class TraceStatistics:
    """Numbers of records: those that wait, were stored, were dropped for want of room, and were lost in flight."""

    waiting: int
    stored: int
    discarded: int
    failed: int


@asynccontextmanager
async def open_trace_dispatcher(
    instance: ClientInstance, group: str, role: TraceRole, customized_trace_topic: str = ""
) -> AsyncIterator[TraceDispatcher]:
    """Send traces for a role of a client while the block runs; its end sends what waits, see ``FLUSH_SECONDS``.

    Open it around the role, whose last hooks are called when it ends. ClientError for an illegal group.
    """
    check_group(group)
    dispatcher = TraceDispatcher(customized_trace_topic or TRACE_TOPIC)
    closing = trio.Event()
    number = next(instance.trace_dispatcher_numbers)
    inner_group = f"{GROUP_NAME_PREFIX}-{group[:_GROUP_LENGTH_MAX]}-{role.value}-{number}"
    async with unwrapped(trio.open_nursery()) as nursery:
        nursery.start_soon(_serve, dispatcher, instance, inner_group, closing)
        try:
            yield dispatcher
        finally:
            closing.set()


async def _serve(dispatcher: TraceDispatcher, instance: ClientInstance, group: str, closing: trio.Event) -> None:
    """Send traces until ``closing``, and then what waits; a cancelled role has its traces too, so this is shielded."""
    config = ProducerConfig(send_msg_timeout=SEND_TIMEOUT_MS, max_message_size=MESSAGE_BYTES_MAX)
    with trio.CancelScope(shield=True):
        async with producer_role(instance, group, config, namespace="") as producer, trio.open_nursery() as nursery:
            nursery.start_soon(dispatcher.run, producer)
            await closing.wait()
            with trio.move_on_after(FLUSH_SECONDS):
                await dispatcher.flush()
            nursery.cancel_scope.cancel()
    dispatcher.log_losses()


class TraceDispatcher:
    """The queue of traces of one role, and the service that sends them. Opened by :func:`open_trace_dispatcher`."""

    def __init__(self, trace_topic: str) -> None:
        self.trace_topic = trace_topic
        self._queue: deque[Sequence[TraceRecord]] = deque()
        self._queued_records = 0
        self._unsent_records = 0  # taken from the queue, without an answer yet
        self._stored = self._discarded = self._failed = 0
        self._arrived = trio.Event()
        self._wanted = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self._is_flushing = False
        self._senders = trio.Semaphore(SENDERS)

    def append(self, records: Sequence[TraceRecord]) -> bool:
        """Have records sent; False when there is no room, and they are dropped. Never waits."""
        count = len(records)
        if len(self._queue) >= QUEUE_ENTRIES_MAX or self._queued_records + count > QUEUE_RECORDS_MAX:
            if not self._discarded:
                _log.warning("traces are dropped: %d wait to be sent to %s", self._queued_records, self.trace_topic)
            self._discarded += count
            return False
        if not self._queue:
            self._arrived.set()
        if self._idle.is_set():
            self._idle = trio.Event()
        self._queue.append(records)
        self._queued_records += count
        if len(self._queue) == QUEUE_ENTRIES_MAX // 2:
            self._wanted.set()
        return True

    async def run(self, sender: TraceSender) -> None:
        """Send what is recorded until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._arrived.wait()
                if not self._is_flushing:
                    with trio.move_on_after(WAIT_TIME_THRESHOLD_SECONDS):
                        await self._wanted.wait()
                self._arrived, self._wanted = trio.Event(), trio.Event()
                for text, keys, count in self._take_messages():
                    await self._senders.acquire()
                    nursery.start_soon(self._send, sender, text, keys, count)

    async def flush(self) -> None:
        """Send what waits now, and wait until all is answered."""
        if self._idle.is_set():
            return
        self._is_flushing = True
        self._wanted.set()
        try:
            await self._idle.wait()
        finally:
            self._is_flushing = False

    def statistics(self) -> TraceStatistics:
        """Return the numbers of records so far."""
        waiting = self._queued_records + self._unsent_records
        return TraceStatistics(waiting, self._stored, self._discarded, self._failed)

    def log_losses(self) -> None:
        """Log how many records were lost, if any."""
        found = self.statistics()
        if found.waiting or found.discarded or found.failed:
            _log.warning(
                "traces are missing in %s: %d had no answer, %d failed, %d were dropped, %d are stored",
                self.trace_topic,
                found.waiting,
                found.failed,
                found.discarded,
                found.stored,
            )

    # ---- private --------------------------------------------------------------------------------------------------

    def _take_messages(self) -> Iterator[tuple[str, str, int]]:
        """Empty the queue; return texts, their keys, and how many records each has.

        Entries leave the queue one by one, so that those of a message that is not made yet still count.
        """
        message = _TraceMessage()
        while self._queue:
            records = self._queue.popleft()
            self._queued_records -= len(records)
            self._unsent_records += len(records)
            for record in records:
                if not message.add(record):
                    yield message.text, message.keys, message.count
                    message = _TraceMessage()
                    message.add(record)
        if message.count:
            yield message.text, message.keys, message.count

    async def _send(self, sender: TraceSender, text: str, keys: str, count: int) -> None:
        is_stored = False
        with Contained(_log, "sending %d traces to %s", count, self.trace_topic):
            try:
                await sender.send(Message(self.trace_topic, text.encode(), {PROPERTY_KEYS: keys}))
                is_stored = True
            except RocketpyError as failure:
                _log.warning("%d traces were not sent to %s: %s", count, self.trace_topic, failure)
        if is_stored:
            self._stored += count
        else:
            self._failed += count
        self._senders.release()
        self._unsent_records -= count
        if not self._queue and not self._unsent_records:
            self._idle.set()


class _TraceMessage:
    """Records that travel together. The first is taken whatever its size: of its keys as many as fit, its id before."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._keys: dict[str, None] = {}
        self._text_size = self._keys_size = 0

    def add(self, record: TraceRecord) -> bool:
        """Take a record; False when it no longer fits."""
        text = write_trace(record)
        text_size = len(text.encode())
        sizes = {key: len(key.encode()) + 1 for key in keys_of(record) if key not in self._keys}
        if self._texts:
            if self._text_size + text_size > MESSAGE_BYTES_MAX:
                return False
            if self._keys_size + sum(sizes.values()) > KEYS_FULL_BYTES:
                return False
        self._texts.append(text)
        self._text_size += text_size
        for key, size in sizes.items():
            if self._keys_size + size <= KEYS_FULL_BYTES:
                self._keys[key] = None
                self._keys_size += size
        return True

    @property
    def count(self) -> int:
        return len(self._texts)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def keys(self) -> str:
        return " ".join(self._keys)
