"""Sending of all messages of an iterable, as many at once as a window allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.results import SendResult
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message


async def send_all(
    send_soon: Callable[[Message], Awaitable[PendingSend]], messages: Iterable[Message]
) -> list[SendResult]:
    """Send messages; return their results in the order of the messages.

    The first failure, in that order, ends it: no further message is taken from the iterable, and the failure is raised
    when what is in flight has ended. A later one is noted with it.
    """
    results: list[SendResult] = []
    under_way: deque[PendingSend] = deque()
    try:
        for message in messages:
            under_way.append(await send_soon(message))
            while under_way and under_way[0].is_done:
                results.append(under_way.popleft().result())
        while under_way:
            results.append(await under_way.popleft())
    except RocketpyError as failure:
        failed_count = 0
        for each in under_way:
            try:
                await each
            except RocketpyError:
                failed_count += 1
        failure.add_note(
            f"{len(results)} messages are stored before it; of {len(under_way)} after it {failed_count} failed"
        )
        raise
    return results
