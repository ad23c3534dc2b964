"""Requests that their peer has not answered yet, as the connection that sent them knows them."""

from __future__ import annotations

from typing import Protocol

import trio

from rocketpy.errors import RemotingSendRequestError, RemotingTimeoutError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.arrivals import let_readers_read


class PendingResponse(Protocol):
    """A request that :meth:`Connection.request_nowait` sends, and what takes its response. Neither call awaits."""

    def encode(self, opaque: int) -> bytes:
        """Return the frame of the request."""
        ...

    def complete(self, response: RemotingCommand | None) -> None:
        """Take the response; None when the connection ended before it came. Sends nothing itself."""
        ...


class Answering(Protocol):
    """The connection to the peer."""

    peer: str
    frames_received: int


class AwaitedResponse:
    """A request whose response a task waits for."""

    __slots__ = ("_done", "_peer", "_request", "_response")

    def __init__(self, request: RemotingCommand, peer: Answering) -> None:
        self._request = request
        self._peer = peer
        self._done = trio.Event()
        self._response: RemotingCommand | None = None

    def encode(self, opaque: int) -> bytes:
        """Return the frame of the request."""
        self._request.opaque = opaque
        return encode_frame(self._request)

    def complete(self, response: RemotingCommand | None) -> None:
        """Take the response; None when the connection ended before it came."""
        self._response = response
        self._done.set()

    async def wait(self, timeout_s: float) -> RemotingCommand:
        """Return the response; RemotingTimeoutError, or RemotingSendRequestError when the connection ends first."""
        with trio.move_on_after(timeout_s):
            await self._done.wait()
        if not self._done.is_set():
            await let_readers_read(self._done.is_set, lambda: self._peer.frames_received)
        if self._response is not None:
            return self._response
        if self._done.is_set():
            raise RemotingSendRequestError(f"the connection to {self._peer.peer} ended before it answered")
        raise RemotingTimeoutError(
            f"no answer from {self._peer.peer} to request code {self._request.code} in {timeout_s:g} s"
        )
