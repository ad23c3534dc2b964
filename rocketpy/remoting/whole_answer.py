"""Encoding of responses with a whole table, in slices.

A table of 50,000 topics takes half a second to encode. Other requests are served between slices, one response is
encoded at a time, and one that exceeds a frame is refused as soon as that is known. A table is encoded once for all who
ask until it changes. Nothing is encoded for a peer that has gone, that does not read its earlier answers, or whose
answer would be one too many for what all peers may leave unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import trio

from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_pieces
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.frame import FRAME_LENGTH_MAX

PIECES_PER_SLICE = 50
BODY_BYTES_MAX = FRAME_LENGTH_MAX - 65_536
"""Leaves more room in the frame than any response header needs."""

_NO_ROOM = "[OVERLOAD]too many answers wait for their connections to read them, try again later"


class Reader(Protocol):
    """The connection that is answered."""

    def has_room(self, size: int) -> bool:
        """Whether an answer of so many bytes is worth making."""
        ...


class WholeAnswers:
    """Encodes bodies one at a time; a table's body is cached until its version changes.

    RequestError(SYSTEM_ERROR) when a body exceeds a frame, RequestError(SYSTEM_BUSY) when its reader has no room.
    ``what`` names the content in the remark.
    """

    def __init__(self, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._body_bytes_max = body_bytes_max
        self._encoding = trio.Lock()  # encoding awaits, and many at once would hold many megabytes each
        self._kept: dict[str, tuple[object, bytes]] = {}

    async def encode(self, reader: Reader, what: str, body: object) -> bytes:
        """Encode a body, which must not change meanwhile."""
        _check_room(reader, 0)
        async with self._encoding:
            return await self._encoded(reader, what, encode_pieces(body))

    async def encode_table(
        self, reader: Reader, what: str, version: Callable[[], object], body: Callable[[], object]
    ) -> bytes:
        """Return the encoded table, from the cache while its version is equal."""
        return await self.join_table(reader, what, version, lambda: encode_pieces(body()))

    async def join_table(
        self, reader: Reader, what: str, version: Callable[[], object], pieces: Callable[[], Iterator[bytes]]
    ) -> bytes:
        """Return the table that the pieces make, each of some microseconds, from the cache while its version is equal.

        The table may change meanwhile: then the next one to ask has it made again.
        """
        _check_room(reader, 0)
        async with self._encoding:
            now = version()
            kept = self._kept.get(what)
            if kept is None or kept[0] != now:
                kept = self._kept[what] = now, await self._encoded(reader, what, pieces())
            _check_room(reader, len(kept[1]))
            return kept[1]

    async def _encoded(self, reader: Reader, what: str, made: Iterator[bytes]) -> bytes:
        pieces: list[bytes] = []
        size = 0
        _check_room(reader, 0)
        for piece in made:
            pieces.append(piece)
            size += len(piece)
            if size > self._body_bytes_max:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"the answer cannot be sent: {what} take more than the {self._body_bytes_max} bytes that fit a "
                    "frame",
                )
            if len(pieces) % PIECES_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
                _check_room(reader, size)
        return b"".join(pieces)


def _check_room(reader: Reader, size: int) -> None:
    if not reader.has_room(size):
        raise RequestError(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
