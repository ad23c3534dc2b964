"""The end of a burst: the work between serving a round of frames and sending their replies.

Rule, in this order: the store writes what the burst put (``end_burst``), then the replies are sent, then the pulls that
the burst has woken are served (``after_replies``) and their replies are sent too.

While a burst is open nothing is sent. A notification caused by the burst, or a socket that becomes writable, would
otherwise carry along a reply whose message is not written yet. If the write fails, nothing is ever sent again: the
queued acknowledgements are dropped before any connection is closed, and the program is about to end.

There is one burst per store: every server that shares the store shares it, through its dispatcher. So a write that
fails under one listener lets no reply out of another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rocketpy.containment import contain, is_containable
from rocketpy.errors import StoreError

_log = logging.getLogger("rocketpy.remoting")


def no_hook() -> None:
    """Do nothing: what a server without a store has at the end of a burst."""


class Sender(Protocol):
    """Interface of a connection that its burst needs."""

    @property
    def peer(self) -> str: ...

    def flush(self) -> None:
        """Send what is queued, as far as the socket accepts it."""
        ...

    def drop_outgoing(self) -> None:
        """Discard what is queued."""
        ...

    def close(self) -> None:
        """End the connection at once."""
        ...


class Burst:
    """A ``with`` block around serving frames: replies are sent at its end, or never.

    Outside the request loop it also completes deferred work: replies that the block queues are sent once the store has
    written. Blocks do not nest, and nothing in one awaits.
    """

    __slots__ = ("_after_replies", "_dirty", "_end_burst", "count", "has_failed", "may_send")

    def __init__(self, *, end_burst: Callable[[], None] = no_hook, after_replies: Callable[[], None] = no_hook) -> None:
        """Take the hook that makes the burst's writes visible, and the one that serves waiting pulls afterwards."""
        self._end_burst = end_burst
        self._after_replies = after_replies
        self._dirty: list[Sender] = []
        self.count = 0
        """Number of bursts so far, by which a driver sees that another one, or a task, has served something."""
        self.may_send = True
        """False while a burst is open, and permanently once one has failed."""
        self.has_failed = False

    def mark_dirty(self, connection: Sender) -> None:
        """Record that a connection has replies to send; called once until it has been flushed."""
        self._dirty.append(connection)

    def __enter__(self) -> None:
        assert self.may_send or self.has_failed, "a burst inside a burst"
        self.count += 1
        self.may_send = False

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.has_failed:
            return
        if failure is not None and not is_containable(failure):
            self._fail()
            return
        try:
            self._end_burst()
        except BaseException as unwritten:
            self._fail()
            if is_containable(unwritten):  # in a processor it would be contained; here it must end the program
                failed = StoreError(f"a burst could not be ended: {unwritten!r}", path="the store")
                failed.__cause__ = unwritten  # not "from": compiled code would drop it
                raise failed  # noqa: B904
            raise
        self.may_send = True
        if self._dirty:
            self.flush_replies()
        try:
            self._after_replies()
        except Exception as woken:
            contain(woken, _log, "serving what a burst has woken")
        if self._dirty:
            self.flush_replies()

    def flush_replies(self) -> None:
        """Send what every dirty connection has queued; nothing while a burst is open."""
        while self._dirty and self.may_send:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                try:
                    connection.flush()
                except Exception as failure:
                    contain(failure, _log, "sending to %s, whose connection is closed,", connection.peer)
                    connection.close()

    def _fail(self) -> None:
        self.has_failed = True
        for connection in self._dirty:
            connection.drop_outgoing()
        self._dirty.clear()
