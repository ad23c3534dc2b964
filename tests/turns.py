"""Turns of the event loop: how often others may run while something long is made, and a runner that lets them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.define(eq=False)
class Turns:
    """What one who always wants to run has had."""

    count: int = 0

    async def take(self) -> None:
        """Take every turn there is, until cancelled."""
        while True:
            self.count += 1
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Turns]:
    """Count turns as long as the block lasts."""
    turns = Turns()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.take)
        yield turns
        nursery.cancel_scope.cancel()


async def run_in_turn(function: Callable[..., T], /, *arguments: object) -> T:
    """A runner of blocking calls that lets others run before it calls, as a thread would."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)
