"""The client in an asyncio program: the same calls, awaited by asyncio.

::

    async with aio.open_client("127.0.0.1:9876") as client:
        async with client.producer("g") as producer:
            await producer.send(Message("T", b"hello"))

Everything that :mod:`rocketpy.client` opens is here, with the same names, parameters, results and errors; type checkers
see the same classes. A coroutine function that is handed over (a handler of messages) runs in asyncio. A cancelled task
leaves nothing behind: its call has ended when the cancellation is raised. A client belongs to the event loop that has
opened it. One that is open when ``asyncio.run`` ends is closed then, with a ResourceWarning. In a child of the process
a client of the parent raises LocalProtocolError.

Trio runs in the same thread, as a guest of asyncio (:mod:`rocketpy.client.shells.guest_host`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ParamSpec, TypeVar, cast

from rocketpy.client import client as trio_client
from rocketpy.client.shells.asyncio_shell import AsyncioClient
from rocketpy.client.shells.open_clients import name_of

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["open_admin_client", "open_client", "open_lite_pull_consumer", "open_producer", "open_pull_consumer"]


def _opener(function: Callable[P, AbstractAsyncContextManager[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Return an opener of the client for asyncio programs."""

    @functools.wraps(function)
    def opening(*arguments: P.args, **named: P.kwargs) -> AbstractAsyncContextManager[T]:
        name = name_of(__name__, function.__name__, arguments, named)
        opened = AsyncioClient(functools.partial(function, *arguments, **named), name)
        return cast(AbstractAsyncContextManager[T], opened)

    return opening


open_client = _opener(trio_client.open_client)
open_producer = _opener(trio_client.open_producer)
open_pull_consumer = _opener(trio_client.open_pull_consumer)
open_lite_pull_consumer = _opener(trio_client.open_lite_pull_consumer)
open_admin_client = _opener(trio_client.open_admin_client)
