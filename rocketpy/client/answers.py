"""Reads what peers send to a client: bounded, and what is long off the event loop.

A short body is read at once. A long one is read in a worker thread, one at a time in a client, so that the answers of
many brokers do not hold the memory of all of them while they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import trio

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.command import RemotingCommand
from rocketpy.runner import RunBlocking, run_decoder

T = TypeVar("T")


class Answers:
    """The reader of one client."""

    def __init__(self, run_blocking: RunBlocking) -> None:
        self._run_blocking = run_blocking
        self._one_at_a_time = trio.Lock()  # the worker awaits

    async def body(self, command: RemotingCommand, body_class: type[T], address: str = "") -> T:
        """Return the body of an answer, or of a broker's request; RemoteProtocolError, which names the address."""
        return await self.decoded(command.body, partial(decode_peer_body, body_class=body_class), address)

    async def decoded(self, body: bytes | None, decode: Callable[[bytes], T], address: str = "") -> T:
        """Return ``decode(body)``; a RemoteProtocolError that it raises gets the address in front."""
        try:
            return await run_decoder(decode, body or b"", self.in_worker)
        except RemoteProtocolError as failure:
            if not address:
                raise
            raise RemoteProtocolError(f"{address}: {failure}") from failure

    async def in_worker(self, function: Callable[..., T], /, *arguments: object) -> T:
        """Call a function off the event loop, when those before it have ended."""
        async with self._one_at_a_time:
            return await self._run_blocking(function, *arguments)
