"""A master's service over streams in memory, with its log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.protocol import FrameReader
from rocketpy.store.ha.service import HAService
from tests.store.ha.slave_peer import MemoryLog, SlavePeer, stream_pair


@attrs.define
class Master:
    """A service with its log; ``acknowledged`` has the best offset after each report."""

    log: MemoryLog
    nursery: trio.Nursery
    times: HATimes = attrs.Factory(HATimes)
    acknowledged: list[int] = attrs.Factory(list)
    service: HAService = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.service = HAService(log=self.log, settings=lambda: self.times, acknowledged=self.note)

    def note(self) -> None:
        self.acknowledged.append(max(slave.acknowledged_offset for slave in self.service.slaves()))

    def connect(self, request: int | None = None) -> SlavePeer:
        """Return a slave whose log ends at ``request``; None for an empty one."""
        ours, theirs = stream_pair()
        self.nursery.start_soon(self.service.serve, theirs, f"10.0.0.{len(self.acknowledged)}:1")
        return SlavePeer(ours, FrameReader(request, file_size=self.log.file_size))

    def append(self, size: int) -> None:
        self.log.append(size)
        self.service.wake()


@asynccontextmanager
async def a_master(*, size: int = 2500, **times: float) -> AsyncIterator[Master]:
    log = MemoryLog()
    log.append(size)
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            yield Master(log, nursery, HATimes(**times))  # type: ignore[arg-type]
            nursery.cancel_scope.cancel()
