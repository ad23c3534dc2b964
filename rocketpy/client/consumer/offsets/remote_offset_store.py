"""Offsets of a clustering group: they are with the broker of each queue.

Compatibility: ``RemoteBrokerOffsetStore`` (4.9.8). There any error of a broker means that the group has no offset, so
that a busy broker makes a group begin at its start position again; here only QUERY_NOT_FOUND does. Before a queue is
handed over its offset is written with an answer, so that the next owner reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import MessageQueue

_log = logging.getLogger("rocketpy.client")


class RemoteOffsetStore:
    """Offsets in memory, and at the brokers."""

    def __init__(self, requests: QueueRequests) -> None:
        self.table = OffsetTable()
        self._requests = requests

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the offset that the broker has; BrokerError, RemotingError or ClientError when it is not known."""
        return await self._requests.consumer_offset(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets, all at once, and wait for the answers."""
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(self._persist, queue)

    async def persist_soon(self, queues: Iterable[MessageQueue]) -> None:
        """Send the offsets without waiting for answers."""
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(self._send, queue)

    async def _persist(self, queue: MessageQueue) -> None:
        consumer_offset = self.table.get(queue)
        if consumer_offset is None:
            return
        try:
            await self._requests.commit(queue, consumer_offset)
        except RocketpyError as failure:
            _log.warning("offset %d of %s was not stored: %s", consumer_offset, queue, failure)

    async def _send(self, queue: MessageQueue) -> None:
        consumer_offset = self.table.get(queue)
        if consumer_offset is None:
            return
        try:
            await self._requests.commit_oneway(queue, consumer_offset)
        except RocketpyError as failure:
            _log.debug("offset %d of %s was not sent: %s", consumer_offset, queue, failure)
