"""Execution of long requests in slices of a few milliseconds: the first two at once, the others in a task."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import trio

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred

SLICES_AT_ONCE = 2

Steps = Generator[None, None, RemotingCommand]
"""The work for one request: a generator that yields between slices and returns the response."""


def served(connection: Connection, request: RemotingCommand, steps: Steps) -> RemotingCommand | Deferred:
    """Run the first slices at once; return the response, or DEFERRED if a task runs the remaining slices.

    RequestError(SYSTEM_BUSY) when the connection may not start another task.
    """
    try:
        for _ in range(SLICES_AT_ONCE):
            next(steps)
    except StopIteration as end:
        answer: RemotingCommand = end.value
        return answer
    if not connection.may_defer or not connection.answer_later(request, _rest, steps):
        steps.close()
        raise RequestError(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy: too many long requests at a time")
    return DEFERRED


async def _rest(steps: Steps) -> RemotingCommand:
    try:
        while True:
            await trio.lowlevel.checkpoint()
            next(steps)
    except StopIteration as end:
        answer: RemotingCommand = end.value
        return answer
    finally:
        steps.close()


def summed(counts: Iterator[int]) -> Generator[None, None, int]:
    """Return the sum of ``counts``, with the end of a slice after each of them; for ``yield from`` in Steps."""
    total = 0
    for count in counts:
        total += count
        yield
    return total
