"""Limit on what requests hold or start together while tasks work on them: bytes, questions to others.

A task keeps its request as long as it waits for a disk, a peer or a program, and a limit on tasks bounds no bytes:
sixty-four requests of one connection may have 16 MiB each. One that is alone is always served, so that no request is
too long for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode


class WorkLimit:
    """Sum over the requests of one kind; ``what`` says in a remark what is counted, and of what."""

    def __init__(self, what: str, size_max: int) -> None:
        self._what = what
        self._size_max = size_max
        self._size = 0

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count so much of a request while the block runs; RequestError(SYSTEM_BUSY) above the limit."""
        if self._size and self._size + size > self._size_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD]system busy, start flow control for a while: {self._size} {self._what} wait, this "
                f"one has {size}, the limit is {self._size_max}",
            )
        self._size += size
        try:
            yield
        finally:
            self._size -= size
