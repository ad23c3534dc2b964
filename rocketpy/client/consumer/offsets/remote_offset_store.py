"""Offsets of a clustering group: they are with the broker of each queue.

Compatibility: ``RemoteBrokerOffsetStore`` (4.9.8). There any error of a broker means that the group has no offset, so
that a busy broker makes a group begin at its start position again; here only QUERY_NOT_FOUND does. Before a queue is
handed over its offset is written with an answer, so that the next owner reads it. The first offset of a topic goes to
a broker alone: Java's broker creates the table of a group and topic without a lock (``ConsumerOffsetManager``), and
would lose one of two first offsets that arrive together.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence

import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import MessageQueue

FIRST_OFFSET_SECONDS = 1.0
"""How long the other offsets of a topic wait for a broker to answer the first one."""
BEGUN_MAX = 10_000
"""Bound on the pairs of topic and broker known to have an offset; beyond it all count as new again."""

_log = logging.getLogger("rocketpy.client")


class RemoteOffsetStore:
    """Offsets in memory, and at the brokers."""

    def __init__(self, requests: QueueRequests) -> None:
        self.table = OffsetTable()
        self._requests = requests
        self._begun: set[tuple[str, str]] = set()
        """Topics and brokers that have answered an offset: the broker has their table."""

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the offset that the broker has; BrokerError, RemotingError or ClientError when it is not known."""
        return await self._requests.consumer_offset(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets, all at once but the first of a topic, and wait for the answers."""
        await self._write(queues, self._persist)

    async def persist_soon(self, queues: Iterable[MessageQueue]) -> None:
        """Send the offsets without waiting for answers but to the first of a topic."""
        await self._write(queues, self._send)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _write(self, queues: Iterable[MessageQueue], write: Callable[[MessageQueue], Awaitable[None]]) -> None:
        tables: defaultdict[tuple[str, str], list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            if self.table.get(queue) is not None:
                tables[queue.topic, queue.broker_name].append(queue)
        async with trio.open_nursery() as nursery:
            for table, its_queues in tables.items():
                if table in self._begun:
                    for queue in its_queues:
                        nursery.start_soon(write, queue)
                else:
                    nursery.start_soon(self._begin, its_queues, write, nursery)

    async def _begin(
        self, queues: Sequence[MessageQueue], write: Callable[[MessageQueue], Awaitable[None]], nursery: trio.Nursery
    ) -> None:
        has_answered = trio.Event()

        async def first() -> None:
            await self._persist(queues[0])
            has_answered.set()

        nursery.start_soon(first)
        if len(queues) > 1:
            with trio.move_on_after(FIRST_OFFSET_SECONDS):
                await has_answered.wait()
            for queue in queues[1:]:
                nursery.start_soon(write, queue)

    async def _persist(self, queue: MessageQueue) -> None:
        consumer_offset = self.table.get(queue)
        if consumer_offset is None:
            return
        try:
            if not await self._requests.may_commit(queue):
                return
            await self._requests.commit(queue, consumer_offset)
            if len(self._begun) >= BEGUN_MAX:
                self._begun.clear()
            self._begun.add((queue.topic, queue.broker_name))
        except RocketpyError as failure:
            _log.warning("offset %d of %s was not stored: %s", consumer_offset, queue, failure)

    async def _send(self, queue: MessageQueue) -> None:
        consumer_offset = self.table.get(queue)
        if consumer_offset is None:
            return
        try:
            if await self._requests.may_commit(queue):
                await self._requests.commit_oneway(queue, consumer_offset)
        except RocketpyError as failure:
            _log.debug("offset %d of %s was not sent: %s", consumer_offset, queue, failure)
