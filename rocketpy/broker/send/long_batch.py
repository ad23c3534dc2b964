"""Batches that are too much for one step of the loop: what their messages mean is found out in slices, over turns.

A batch of thousands of messages, or of long properties, takes many times what one request may keep the loop. Its cut
and its refusals take little, and are made at once as for any batch; so is its put, one step at the end. What lies
between is done here, by a task. One batch at a time is worked on, in the order in which they came, and what waits is
bounded: :meth:`LongBatches.take` refuses more with SYSTEM_BUSY.

Rule: a batch that waits is stored also when its connection ends meanwhile, like any request that has come whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import trio

from rocketpy.broker.send.properties import client_columns, stored_batch
from rocketpy.errors import RequestError
from rocketpy.protocol.batch import BatchColumns
from rocketpy.protocol.codes import ResponseCode
from rocketpy.store.append.batch import MessageBatch

AT_ONCE_BYTES = 128 << 10
"""A batch whose body is as long is served at once, and one whose properties are, if it has few messages."""

AT_ONCE_COUNT = 1000
"""Few messages."""

WAITING_BYTES_MAX = 128 << 20
"""What all batches that wait may hold, about: their bodies, in one piece and cut, and the objects of their messages."""

_MESSAGE_BYTES = 200
_SLICE_COUNT = 500
_SLICE_BYTES = 32 << 10
"""So many bytes of properties are read in 2 ms, whatever they say."""

_TOO_MANY = "[OVERLOAD]system busy, start flow control for a while: too many long batches wait"


def is_long(columns: BatchColumns, body: bytes) -> bool:
    """Whether a batch is too much for one step; to ask of a short body is cheap."""
    return len(body) > AT_ONCE_BYTES and (
        len(columns.bodies) > AT_ONCE_COUNT or sum(map(len, columns.properties)) > AT_ONCE_BYTES
    )


class LongBatches:
    """The long batches of one broker."""

    def __init__(self) -> None:
        self._turn = trio.Lock()
        self._waiting_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """What the batches hold that wait, or are worked on."""
        return self._waiting_bytes

    def take(self, columns: BatchColumns, body: bytes) -> int:
        """Count a batch as waiting, and return what it holds; RequestError(SYSTEM_BUSY) when too much waits.

        It is for the caller to see that :meth:`leave` is called once. One that comes alone is always taken.
        """
        size = 2 * len(body) + _MESSAGE_BYTES * len(columns.bodies)
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY)
        self._waiting_bytes += size
        return size

    def leave(self, size: int) -> None:
        """End the waiting of a batch that holds ``size`` bytes."""
        self._waiting_bytes -= size

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Be the one that is worked on, for the block; then the batch, which was taken, has left."""
        try:
            async with self._turn:
                yield
        finally:
            self.leave(size)


async def stored_batch_in_slices(
    columns: BatchColumns, suffix: bytes, *, suffix_says_nothing: bool, perhaps_brokers_word: bool
) -> MessageBatch:
    """Return what ``stored_batch`` does of the messages of clients, with a checkpoint after each slice of them."""
    flags: list[int] = []
    bodies: list[bytes] = []
    properties: list[bytes] = []
    tags_codes: list[int] = []
    keys: list[Sequence[bytes]] = []
    for begin, end in _slices(columns.properties):
        part = BatchColumns(columns.flags[begin:end], columns.bodies[begin:end], columns.properties[begin:end])
        if perhaps_brokers_word:
            part = client_columns(part)
        made = stored_batch(part, suffix, suffix_says_nothing=suffix_says_nothing)
        flags += made.flags
        bodies += made.bodies
        properties += made.properties
        tags_codes += made.tags_codes
        keys += made.keys
        await trio.lowlevel.checkpoint()
    return MessageBatch(flags, bodies, properties, tags_codes, keys)


def _slices(all_properties: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of slices, each of at least one message and otherwise of few and short ones."""
    begin, size = 0, 0
    for number, own in enumerate(all_properties):
        size += len(own)
        if number > begin and (size > _SLICE_BYTES or number - begin == _SLICE_COUNT):
            yield begin, number
            begin, size = number, len(own)
    yield begin, len(all_properties)
