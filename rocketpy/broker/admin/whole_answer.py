"""Encoding of responses with a whole table, in slices.

A table of 50,000 topics takes half a second to encode. Other requests are served between slices, one response is
encoded at a time, and one that exceeds a frame is refused as soon as that is known.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_pieces
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.frame import FRAME_LENGTH_MAX

PIECES_PER_SLICE = 50
BODY_BYTES_MAX = FRAME_LENGTH_MAX - 65_536
"""Leaves more room in the frame than any response header needs."""


class WholeAnswers:
    """Encodes bodies one at a time; a table's body is cached until its version changes."""

    def __init__(self, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._body_bytes_max = body_bytes_max
        self._encoding = trio.Lock()  # encoding awaits, and many at once would hold many megabytes each
        self._kept: dict[str, tuple[object, bytes]] = {}

    async def encode(self, what: str, body: object) -> bytes:
        """Encode a body, which must not change meanwhile; RequestError(SYSTEM_ERROR) when it exceeds a frame.

        ``what`` names the content in the remark.
        """
        async with self._encoding:
            return await self._encoded(what, body)

    async def encode_table(self, what: str, version: Callable[[], object], body: Callable[[], object]) -> bytes:
        """Return the encoded table, from the cache while its version is equal."""
        async with self._encoding:
            now = version()
            kept = self._kept.get(what)
            if kept is None or kept[0] != now:
                kept = self._kept[what] = now, await self._encoded(what, body())
            return kept[1]

    async def _encoded(self, what: str, body: object) -> bytes:
        pieces: list[bytes] = []
        size = 0
        for piece in encode_pieces(body):
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
        return b"".join(pieces)
