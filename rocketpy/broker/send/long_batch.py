"""Processing of batches that are too long for one turn of the event loop.

A batch of thousands of messages, or of long properties, takes many times longer than one request may occupy the loop.
Splitting and refusing it is cheap and happens at once, as for any batch. Its put is one step at the end. The work in
between, deriving tags codes and index keys, is done here by a task, in slices with a checkpoint after each. One batch
is processed at a time, in order of arrival. The waiting bytes are bounded: :meth:`LongBatches.take` refuses more with
SYSTEM_BUSY.

Rule: a waiting batch is stored even if its connection ends meanwhile, like any request that was read completely.
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
"""A batch up to this body size is served at once; so is one of few messages with so many bytes of properties."""

AT_ONCE_COUNT = 1000
"""Messages up to which a larger batch counts as having few."""

WAITING_BYTES_MAX = 128 << 20
"""Approximate limit of all waiting batches: their bodies, whole and split, and the objects of their messages."""

_MESSAGE_BYTES = 200
SLICE_COUNT = 500
SLICE_BYTES = 32 << 10
"""Bytes of properties per slice; they are parsed in at most 2 ms, whatever their content."""

_TOO_MANY = "[OVERLOAD]system busy, start flow control for a while: too many long batches wait"


def is_long(columns: BatchColumns, body: bytes) -> bool:
    """Return whether a batch is too long for one turn; cheap for a short body."""
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
        """Approximate bytes held by waiting and running batches."""
        return self._waiting_bytes

    def take(self, columns: BatchColumns, body: bytes) -> int:
        """Account for a waiting batch and return its size in bytes; RequestError(SYSTEM_BUSY) beyond the limit.

        The caller must call :meth:`leave` exactly once. A batch is always accepted when no other waits.
        """
        size = 2 * len(body) + _MESSAGE_BYTES * len(columns.bodies)
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY)
        self._waiting_bytes += size
        return size

    def leave(self, size: int) -> None:
        """Release the ``size`` bytes of a batch."""
        self._waiting_bytes -= size

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Hold the turn for the block; on exit the batch is released, as by :meth:`leave`."""
        try:
            async with self._turn:
                yield
        finally:
            self.leave(size)


async def stored_batch_in_slices(
    columns: BatchColumns,
    suffix: bytes,
    *,
    suffix_has_no_tags_or_keys: bool,
    may_have_broker_only: bool,
    slice_count: int = SLICE_COUNT,
    slice_bytes: int = SLICE_BYTES,
) -> MessageBatch:
    """Return what :func:`stored_batch` would, with a checkpoint after each slice of messages.

    A slice has at most ``slice_count`` messages, and ``slice_bytes`` of properties unless one message has more.
    """
    flags: list[int] = []
    bodies: list[bytes] = []
    properties: list[bytes] = []
    tags_codes: list[int] = []
    keys: list[Sequence[bytes]] = []
    for begin, end in _slices(columns.properties, slice_count, slice_bytes):
        part = BatchColumns(columns.flags[begin:end], columns.bodies[begin:end], columns.properties[begin:end])
        if may_have_broker_only:
            part = client_columns(part)
        made = stored_batch(part, suffix, suffix_has_no_tags_or_keys=suffix_has_no_tags_or_keys)
        flags += made.flags
        bodies += made.bodies
        properties += made.properties
        tags_codes += made.tags_codes
        keys += made.keys
        await trio.lowlevel.checkpoint()
    return MessageBatch(flags, bodies, properties, tags_codes, keys)


def _slices(all_properties: Sequence[bytes], count_max: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of slices; each has at least one message and otherwise stays within the slice limits."""
    begin, size = 0, 0
    for number, own in enumerate(all_properties):
        size += len(own)
        if number > begin and (size > bytes_max or number - begin == count_max):
            yield begin, number
            begin, size = number, len(own)
    yield begin, len(all_properties)
