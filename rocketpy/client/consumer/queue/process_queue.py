"""Messages of one queue that have been pulled and are not yet acknowledged.

A plain value without IO or clock. Rule: :attr:`ProcessQueue.consumer_offset` never passes a message that is not
acknowledged. Messages arrive in ascending order of their queue offsets; one that is not above all before it has been
delivered already and is ignored.

Compatibility: ``ProcessQueue`` (4.9.8).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import attrs

from rocketpy.protocol.message import MessageExt, MessageQueue


@attrs.define(eq=False)
class ProcessQueue:
    """One assignment of one queue; a new one begins when the queue is assigned again."""

    queue: MessageQueue
    message_count: int = 0
    size_bytes: int = 0
    """Of the bodies."""
    is_dropped: bool = False
    """The queue belongs to another member, or is read anew: acknowledgements no longer count."""
    is_leaving: bool = False
    """The queue is being given up: nothing more is taken from it, but what is being consumed still counts."""
    is_consuming: bool = False
    """A handler of an orderly consumer has messages of it."""
    is_locked: bool = False
    locked_at: float = 0.0
    """On the clock of Trio."""
    locked_at_ms: int = 0
    pulled_at_ms: int = 0
    consumed_at_ms: int = 0
    try_unlock_count: int = 0
    on_removed: Callable[[], None] | None = None
    """Called when messages have left: for a reader that waits for space."""
    _waiting: OrderedDict[int, MessageExt] = attrs.field(factory=OrderedDict)
    _taken: OrderedDict[int, MessageExt] = attrs.field(factory=OrderedDict)  # by an orderly consumer, not committed
    _highest: int = -1  # of all messages so far

    # ---- for every consumer ---------------------------------------------------------------------------------------

    def put(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Add messages; return those that are new."""
        if not messages:
            return messages
        if messages[0].queue_offset <= self._highest:
            messages = [each for each in messages if each.queue_offset > self._highest]
        waiting = self._waiting
        size = 0
        for message in messages:
            waiting[message.queue_offset] = message
            size += len(message.body)
        if messages:
            self._highest = messages[-1].queue_offset
        self.message_count += len(messages)
        self.size_bytes += size
        return messages

    def remove(self, messages: Iterable[MessageExt]) -> int | None:
        """Acknowledge messages; return the offset that may be committed now, None when none of them was here."""
        waiting = self._waiting
        count = size = 0
        for message in messages:
            known = waiting.pop(message.queue_offset, None)
            if known is not None:
                count += 1
                size += len(known.body)
        return self._removed(count, size)

    @property
    def consumer_offset(self) -> int | None:
        """The lowest offset that is not acknowledged, None when there has been no message."""
        if self._taken:
            return next(iter(self._taken))
        if self._waiting:
            return next(iter(self._waiting))
        return self._highest + 1 if self._highest >= 0 else None

    @property
    def span(self) -> int:
        """Distance of the highest offset from the lowest that is not acknowledged."""
        lowest = self.consumer_offset
        return 0 if lowest is None else max(0, self._highest - lowest)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest offset here, None when it is empty."""
        lowest = self.consumer_offset
        return None if not self.message_count or lowest is None else (lowest, self._highest)

    def __contains__(self, message: MessageExt) -> bool:
        """Whether a message still waits for its acknowledgement."""
        return message.queue_offset in self._waiting or message.queue_offset in self._taken

    @property
    def has_waiting(self) -> bool:
        """Whether a message is not taken."""
        return bool(self._waiting)

    @property
    def waiting(self) -> list[MessageExt]:
        """The messages that are not taken, in order."""
        return list(self._waiting.values())

    def clear(self) -> None:
        """Forget all messages: the queue is dropped."""
        self._waiting.clear()
        self._taken.clear()
        self.message_count = self.size_bytes = 0

    # ---- for orderly consumers ------------------------------------------------------------------------------------

    @property
    def taken(self) -> list[MessageExt]:
        """The messages that are taken and not committed, in order."""
        return list(self._taken.values())

    def take(self, count_max: int) -> list[MessageExt]:
        """Take the next messages, in order; they stay here until they are committed or put back."""
        batch = list(islice(self._waiting.values(), count_max))
        for message in batch:
            del self._waiting[message.queue_offset]
            self._taken[message.queue_offset] = message
        return batch

    def commit(self) -> int | None:
        """Acknowledge all that is taken; return the offset that may be committed, None when nothing is taken."""
        if not self._taken:
            return None
        count, size = len(self._taken), sum(len(each.body) for each in self._taken.values())
        self._taken.clear()
        return self._removed(count, size)

    def give_up(self, messages: Iterable[MessageExt]) -> None:
        """Forget taken messages that are redelivered by another path."""
        count = size = 0
        for message in messages:
            known = self._taken.pop(message.queue_offset, None)
            if known is not None:
                count += 1
                size += len(known.body)
        self._removed(count, size)

    def put_back(self, messages: Sequence[MessageExt] | None = None) -> None:
        """Let taken messages, by default all, be taken again, in order."""
        again = self.taken if messages is None else messages
        for message in reversed(again):
            known = self._taken.pop(message.queue_offset, None)
            if known is not None:
                self._waiting[message.queue_offset] = known
                self._waiting.move_to_end(message.queue_offset, last=False)

    # ---- private --------------------------------------------------------------------------------------------------

    def _removed(self, count: int, size: int) -> int | None:
        if not count:
            return None
        self.message_count -= count
        self.size_bytes -= size
        if self.on_removed is not None:
            self.on_removed()
        return self.consumer_offset
