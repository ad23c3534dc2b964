"""Reads what peers send to a client: bounded, and what is long off the event loop.

A short body is read at once. A long one, and one that grows when it is unpacked, is read in a worker thread, one at a
time in a client, so that the answers of many brokers do not hold the memory of all of them while they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

import trio

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX, UnpackedSizeError
from rocketpy.runner import ON_LOOP_BYTES_MAX, RunBlocking, run_decoder

T = TypeVar("T")
Unpacked_co = TypeVar("Unpacked_co", covariant=True)

ON_LOOP_UNPACKED_MAX = 524_288
"""Bytes of a body that is decompressed on the event loop: a millisecond; an answer of 32 such bodies takes 30 ms."""


class Unpack(Protocol[Unpacked_co]):
    """Decodes records; UnpackedSizeError for bodies that have more than ``unpacked_max`` bytes when decompressed."""

    def __call__(self, body: bytes, /, *, unpacked_max: int = DECOMPRESSED_SIZE_MAX) -> Unpacked_co:
        """Return what is in the records."""
        ...


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
        with _naming(address):
            return await run_decoder(decode, body or b"", self.in_worker)

    async def unpacked(self, body: bytes | None, decode: Unpack[T], address: str = "") -> T:
        """As :meth:`decoded`, for records, whose bodies may be compressed."""
        body = body or b""
        with _naming(address):
            if len(body) <= ON_LOOP_BYTES_MAX:
                with suppress(UnpackedSizeError):
                    return decode(body, unpacked_max=ON_LOOP_UNPACKED_MAX)
            return await self.in_worker(decode, body)

    async def in_worker(self, function: Callable[..., T], /, *arguments: object) -> T:
        """Call a function off the event loop, when those before it have ended."""
        async with self._one_at_a_time:
            return await self._run_blocking(function, *arguments)


@contextmanager
def _naming(address: str) -> Iterator[None]:
    """Put an address, if there is one, before the text of a RemoteProtocolError."""
    try:
        yield
    except RemoteProtocolError as failure:
        if not address:
            raise
        raise RemoteProtocolError(f"{address}: {failure}") from failure
