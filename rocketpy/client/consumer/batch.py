"""Messages of one queue that are handled together, and their acknowledgement.

Compatibility: the list of messages and the ``ConsumeConcurrentlyContext`` or ``ConsumeOrderlyContext`` that a Java
listener gets (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import trio

from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.send_back import DEAD_LETTER
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.protocol.message import MessageExt, MessageQueue


class Settlement(Protocol):
    """Interface that a batch needs from the consumer that it came from."""

    def settle(self, batch: MessageBatch) -> None:
        """Acknowledge all messages of a batch that are not settled yet."""
        ...

    async def give_back(self, batch: MessageBatch, messages: Sequence[MessageExt], delay_level: int) -> None:
        """Send messages back to be consumed again later."""
        ...


class MessageBatch:
    """Messages of one queue, in order: iterate over it. Use by one task at a time.

    A handler may set ``delay_level`` (of the messages that it does not acknowledge: 0 lets the broker choose, -1 makes
    them dead letters) and ``ack_index``, the index of the last message that succeeded. A handler of an orderly consumer
    may set ``auto_commit`` and ``suspend_ms``, the pause before a queue goes on that it has suspended (-1: as
    configured).
    """

    __slots__ = (
        "_namespace",
        "_settlement",
        "ack_index",
        "auto_commit",
        "delay_level",
        "is_settled",
        "messages",
        "process_queue",
        "started_at",
        "suspend_ms",
    )

    def __init__(
        self,
        messages: Sequence[MessageExt],
        process_queue: ProcessQueue,
        settlement: Settlement | None = None,
        namespace: Namespace = NO_NAMESPACE,
    ) -> None:
        self.messages = messages
        self.process_queue = process_queue
        self.ack_index: int | None = None
        self.delay_level = 0
        self.auto_commit = True
        self.suspend_ms = -1
        self.is_settled = False
        self.started_at = 0.0
        self._settlement = settlement
        self._namespace = namespace

    def __iter__(self) -> Iterator[MessageExt]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def queue(self) -> MessageQueue:
        """The queue that the messages were pulled from; for a retry it is one of the group's retry topic."""
        return self._namespace.unwrap_queue(self.process_queue.queue)

    async def done(self) -> None:
        """Acknowledge the messages: they are not delivered again, unless the consumer ends before it has committed.

        The acknowledgement counts even if the call is cancelled.
        """
        self.done_nowait()
        await trio.lowlevel.checkpoint()

    def done_nowait(self) -> None:
        """Acknowledge the messages as :meth:`done`, without letting other tasks run."""
        if self._settlement is not None:
            self._settlement.settle(self)

    async def retry_later(self, delay_level: int = 0, *, messages: Sequence[MessageExt] | None = None) -> None:
        """Have messages, by default all that are not settled, delivered again later, to any member of the group.

        With level 0 the broker chooses the delay, longer with each retry. Returns when the broker has taken the
        messages back; if it does not, they are delivered again here. If the call is cancelled, the others are not
        acknowledged.
        """
        if self._settlement is not None and not self.is_settled:
            await self._settlement.give_back(self, self.messages if messages is None else messages, delay_level)

    async def dead_letter(self, *, messages: Sequence[MessageExt] | None = None) -> None:
        """Move messages, by default all that are not settled, to the group's dead letter queue."""
        await self.retry_later(DEAD_LETTER, messages=messages)
