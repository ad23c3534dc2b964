"""Counts how often others may run while something long is made: what nobody else can run beside is never over soon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio


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
