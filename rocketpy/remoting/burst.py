"""The end of a burst: what happens between serving a round of frames and sending their replies.

Rule, in this order: the program makes the burst real (``Dispatcher.end_burst``: the store writes), then the replies
leave, then what the burst set off for others is served (``Dispatcher.after_replies``: woken pulls) and leaves too. If
making it real fails, no reply has left.
"""

from __future__ import annotations

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class Burst:
    """The connections that have something to send, and the order of things. One per server; both drivers share it."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._dirty: list[Connection] = []

    def mark_dirty(self, connection: Connection) -> None:
        """Remember a connection until the next flush."""
        self._dirty.append(connection)

    def end(self) -> None:
        """End the burst: writes, replies, then what was woken."""
        dispatcher = self._dispatcher
        if dispatcher.end_burst is not None:
            dispatcher.end_burst()
        self.flush_replies()
        if dispatcher.after_replies is not None:
            dispatcher.after_replies()
            self.flush_replies()

    def flush_replies(self) -> None:
        """Send what every dirty connection has queued."""
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.flush()
