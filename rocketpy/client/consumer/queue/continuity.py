"""Finds out whether a queue still is the one that was read, or has lost its tail since.

A new master has never had what its old one had not sent it, and a broker that has lost its power may have lost what was
not flushed. Then it stores new messages at the offsets of that tail, and a reader that went on from its position in
memory would skip them. So a reader looks at the last message that it has read again, whenever the connection to the
master of its queue is another one: after a change of roles, and after a restart. A log has no holes: while that message
is there, so is all before it. If it is gone, the reader goes on from what the broker has as the group's progress; so
does one that has read nothing yet.

Rule: until that is known nothing is committed, for the old position would hide the new messages for good.

Compatibility: RocketMQ (4.9.8) asks for the progress of a queue only when a rebalance assigns it. Its brokers keep
progress past the end of their logs, so that with them a group may miss messages all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs
import trio

from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import RemotingError
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH

_NONE = object()
"""Is no connection."""

_log = logging.getLogger("rocketpy.client")


class ContinuityRequests(Protocol):
    """Interface to the master of a queue."""

    def master_connection(self, queue: MessageQueue) -> object | None:
        """Return the open connection to the master, None without one."""
        ...

    def has_master(self, queue: MessageQueue) -> bool:
        """Return whether a route names a master."""
        ...

    async def look_up_master(self, queue: MessageQueue) -> None:
        """Look for a master where none is known; NoBrokerError when there is no broker at all."""
        ...

    def reads_slave(self, queue: MessageQueue) -> bool:
        """Return whether the next pull goes to a slave, because the last answer has named it."""
        ...

    async def look_at(self, queue: MessageQueue, queue_offset: int) -> PullResult:
        """Return what the master has at an offset, one message at most; RocketpyError when it does not say."""
        ...


@attrs.frozen
class _Record:
    """A message by its offset, and by what no other record has in common with it."""

    queue_offset: int
    identity: tuple[int, int, int, int]


@attrs.define(eq=False)
class Continuity:
    """What one reader knows of one queue. ``begin_offset`` asks where a member begins that takes the queue now."""

    queue: MessageQueue
    next_offset: int
    requests: ContinuityRequests
    begin_offset: Callable[[MessageQueue], Awaitable[int]]
    fallback: int | None = None
    """The offset to go on from, because what was read last is gone; None while it is there."""
    _last: _Record | None = None
    _is_shared: bool = False  # its messages have the offsets of another queue, so that there is nothing to look at
    _assured_on: object | None = None
    # A reader and a commit may ask at the same time, and the first answer is for both.
    _checking: trio.Lock = attrs.field(factory=trio.Lock)

    def assume(self) -> None:
        """Take the queue for the one that is read: its offset has just come from its master."""
        self._assured_on = self.requests.master_connection(self.queue)

    def note(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Note what has been read, and the offset after it."""
        self.next_offset = next_offset
        if self._last is not None and next_offset <= self._last.queue_offset:
            # The broker has less than was read: it has cut its tail, perhaps, while the connection stayed.
            self._assured_on = _NONE
        if messages:
            last = messages[-1]
            self._last = _Record(last.queue_offset, _identity(last))
            self._is_shared = PROPERTY_INNER_MULTI_DISPATCH in last.properties

    @property
    def is_assured(self) -> bool:
        """Whether the queue is the one that was read, by all that is known without asking.

        Without a master there is none to ask: what is read then is a slave's.
        """
        if self.fallback is not None:
            return False
        connection = self.requests.master_connection(self.queue)
        if connection is None:
            return not self.requests.has_master(self.queue)
        return connection is self._assured_on

    async def check(self) -> bool:
        """Ask, unless it is known; False if there is a :attr:`fallback`. RocketpyError when the master does not say."""
        async with self._checking:
            while not self.is_assured and self.fallback is None:
                await self._check()
        return self.fallback is None

    async def may_commit(self) -> bool:
        """As :meth:`check`, for a commit: where no master is known it goes to the one that a fresh look-up finds."""
        if not self.requests.has_master(self.queue):
            await self.requests.look_up_master(self.queue)
        return await self.check()

    @property
    def may_take(self) -> bool:
        """Whether an answer to a pull is of the queue that was read: what a slave has said is taken as it is."""
        return self.is_assured or (self.fallback is None and self.requests.reads_slave(self.queue))

    async def may_read(self) -> bool:
        """As :meth:`check`, but a master that does not answer is not missed where the next pull goes to a slave."""
        if self.is_assured:
            return True
        try:
            return await self.check()
        except RemotingError:
            if not self.requests.reads_slave(self.queue):
                raise
            return True

    async def _check(self) -> None:
        last, end = self._last, self.next_offset
        if self._is_shared:
            self.assume()
            return
        if last is not None:
            result = await self.requests.look_at(self.queue, last.queue_offset)
            if self._is_there(last, result):
                # What follows it did not match, or was of the tail: either is looked at again.
                self.next_offset = min(end, max(last.queue_offset + 1, result.min_offset))
                self.assume()  # no await since the answer
                return
            end = min(end, result.max_offset)
        self.fallback = min(await self.begin_offset(self.queue), end)
        if last is not None:
            _log.warning("%s has lost its tail: going on at %d, not at %d", self.queue, self.fallback, self.next_offset)
        elif self.fallback == self.next_offset:
            self.fallback = None
            self.assume()

    @staticmethod
    def _is_there(last: _Record, result: PullResult) -> bool:
        """Return whether the last message that was read is there, or has been deleted with those before it."""
        if last.queue_offset < result.min_offset:
            return True
        return result.status is PullStatus.FOUND and any(_identity(each) == last.identity for each in result.messages)


def _identity(message: MessageExt) -> tuple[int, int, int, int]:
    return message.physical_offset, message.store_timestamp, message.store_size, message.body_crc
