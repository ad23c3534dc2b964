"""What the worst answers cost the event loop of the program that has asked: the mirror of ``worst_requests``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

import attrs
import trio

from rocketpy.protocol.fastjson import FrozenBean, dumps

T = TypeVar("T")

SIZE = 1 << 20
"""Of a body: a reader without a bound takes 0.3 s for as much, standard JSON or not."""


def grown(value: object, size: int) -> object:
    """Return a document whose arrays and maps have their first item again and again, ``size`` characters in all."""
    match value:
        case dict() if value:
            # The largest member of a body is what it lists; a map from names to values has one kind of member.
            key, item = max(value.items(), key=lambda each: len(dumps(each[1])))
            if isinstance(item, dict | list) and item:
                return {**value, key: grown(item, size)}
            return {**value, **dict(zip(_keys_like(key), _copies(key, item, size), strict=False))}
        case list() if value:
            return list(_copies("", value[0], size))
    return value


def _copies(key: object, item: object, size: int) -> list[object]:
    return [item] * (size // (len(dumps(item)) + len(dumps(key)) + 10))


def _keys_like(key: object) -> Iterator[object]:
    if isinstance(key, int):
        return count()
    if isinstance(key, str):
        return (f"{key}{number}" for number in count())
    if isinstance(key, FrozenBean):  # a MessageQueue
        return (FrozenBean({**key, "queueId": number}) for number in count())
    return iter(())


@attrs.define(eq=False)
class Workers:
    """Runs calls in a thread and waits for them, so the loop spends no processor time on them, nor Trio's clock."""

    _threads: ThreadPoolExecutor = attrs.field(factory=lambda: ThreadPoolExecutor(1))

    async def __call__(self, function: Callable[..., T], /, *arguments: object) -> T:
        return self._threads.submit(function, *arguments).result(timeout=60)


async def in_a_task(function: Callable[[], Awaitable[object]]) -> None:
    """Call a function in a task of its own, whose steps count."""

    async def run() -> None:
        await function()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
