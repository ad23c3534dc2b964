"""Requests that are served in slices of some milliseconds: the first two at once, the others in a task."""

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
"""The work for one request: it yields between its slices, and returns the answer."""


def served(connection: Connection, request: RemotingCommand, steps: Steps) -> RemotingCommand | Deferred:
    """Do the first slices of the work for a request at once, and the others in a task."""
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
    total = 0
    for count in counts:
        total += count
        yield
    return total
