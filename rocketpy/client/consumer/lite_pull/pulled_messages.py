"""Messages of a lite pull consumer from their pull to the poll that returns them.

The result of a pull is one piece: a poll returns it whole. Rule: a piece is removed in the same step in which its
queue's progress passes it, so a poll that is cancelled loses nothing. Pieces of a queue that was given up, or that
begins anew elsewhere, are skipped.

Compatibility: ``DefaultLitePullConsumerImpl.poll`` and its consumeRequestCache (4.9.8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.protocol.message import MessageExt


class PulledMessages:
    """Messages that have been pulled and not polled, in the order of their arrival.

    ``progress`` is the table of what has been polled. ``gate`` holds the readers of all queues. It is closed while
    there are more pieces than ``messages_max`` allows, each of them counted as a full one of ``piece_size`` messages.
    """

    def __init__(self, *, gate: PullGate, progress: OffsetTable, piece_size: int, messages_max: int) -> None:
        self._gate = gate
        self._progress = progress
        self._piece_size = piece_size
        self._messages_max = messages_max
        self._pieces: deque[tuple[ProcessQueue, Sequence[MessageExt]]] = deque()
        self._arrived = trio.Event()
        self._is_closed = False

    # ---- for the queues -------------------------------------------------------------------------------------------

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Add the result of a pull."""
        self._pieces.append((process_queue, messages))
        if self._is_full:
            # What nothing will ever poll must not hold other queues, nor stay in memory.
            self._pieces = deque(each for each in self._pieces if not each[0].is_dropped)
        self._gate.set_full(self._is_full)
        self._let_look()

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        """Return at once: what was polled and is not committed is polled again by the next owner of the queue."""

    def close(self) -> None:
        """End all polls: the consumer has left its group."""
        self._is_closed = True
        self._pieces.clear()
        self._let_look()

    # ---- for polls ------------------------------------------------------------------------------------------------

    def take_nowait(self) -> Sequence[MessageExt] | None:
        """Return the next piece, None when there is none; EndOfChannel when the consumer has left."""
        if self._is_closed:
            raise trio.EndOfChannel
        found = None
        while self._pieces and found is None:
            process_queue, messages = self._pieces.popleft()
            if process_queue.is_dropped or process_queue.is_leaving:
                continue
            offset = process_queue.remove(messages)
            assert offset is not None, "a queue that is not dropped has the messages of its pieces"
            self._progress.update(process_queue.queue, offset, increase_only=False)
            found = messages
        self._gate.set_full(self._is_full)
        return found

    async def take(self) -> Sequence[MessageExt]:
        """Wait for the next piece; EndOfChannel when the consumer has left."""
        while True:
            found = self.take_nowait()
            if found is not None:
                return found
            await self._arrived.wait()

    # ---- private --------------------------------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return len(self._pieces) * self._piece_size > self._messages_max

    def _let_look(self) -> None:
        arrived, self._arrived = self._arrived, trio.Event()
        arrived.set()
