"""Bounds the requests that wait for another client's answer, in total and per connection.

Each waits as a task, for up to ten seconds, and other commands and cold reads need tasks too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.connection import Connection


class WaitingRequests:
    """Counter of waiting requests of one kind; ``what`` is their plural in a remark."""

    def __init__(self, what: str, *, total_max: int, of_connection_max: int) -> None:
        self._what = what
        self._total_max = total_max
        self._of_connection_max = of_connection_max
        self._total = 0
        self._of: dict[Connection, int] = {}

    @contextmanager
    def counted(self, connection: Connection) -> Iterator[None]:
        """Count a request from or to a connection for the block; RequestError(SYSTEM_BUSY) beyond a bound."""
        of_connection = self._of.get(connection, 0)
        if self._total >= self._total_max:
            raise _busy(f"{self._total} {self._what}, the limit is {self._total_max}")
        if of_connection >= self._of_connection_max:
            raise _busy(f"{of_connection} {self._what} at {connection.peer}, the limit is {self._of_connection_max}")
        self._total += 1
        self._of[connection] = of_connection + 1
        try:
            yield
        finally:
            self._total -= 1
            self._of[connection] -= 1
            if not self._of[connection]:
                del self._of[connection]


def _busy(why: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, start flow control for a while: {why}")
