"""A whole store that is a SYNC_MASTER, on a simulated disk; its slaves are played by the test, over streams in memory.

Time is Trio's. A message is put and waited for in a burst; ``answers`` has what was called back, and when.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.runner import RunBlocking
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.protocol import FrameReader
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.slave_peer import SlavePeer, stream_pair
from tests.store.opened_store import config_for, send
from tests.store.parts import STORE_HOST, Place
from tests.turns import run_in_turn


def connect_slave(store: MessageStore, nursery: trio.Nursery, request: int | None = None) -> SlavePeer:
    """Return a connected slave whose log ends at ``request``; None for an empty one. It reports when the test does."""
    ours, theirs = stream_pair()
    nursery.start_soon(store.ha_service.serve, theirs, "10.0.0.9:1")
    return SlavePeer(ours, FrameReader(request, file_size=store.log_source.file_size))


async def slave_of(store: MessageStore, nursery: trio.Nursery) -> SlavePeer:
    """Return a slave that has the whole log of a store, and has asked for the rest."""
    end = store.log_source.end_offset
    slave = connect_slave(store, nursery, end or None)
    await slave.report(end)
    await trio.testing.wait_all_tasks_blocked()
    return slave


@attrs.define
class Answer:
    """What a producer is told: the end of its message, the status, the time, and the log's written end at that time."""

    end: int
    status: PutMessageStatus
    time: float
    written_end: int


@attrs.define(eq=False)
class SyncMaster:
    """The store, and what its producers are told."""

    store: MessageStore
    nursery: trio.Nursery
    flushes: list[int]
    """How many answers there were at each call of ``flush_replies``."""
    answers: list[Answer]

    @property
    def statuses(self) -> list[PutMessageStatus]:
        return [answer.status for answer in self.answers]

    def connect(self, request: int | None = None) -> SlavePeer:
        """Return a slave whose log ends at ``request``; None for an empty one. It reports when the test does."""
        return connect_slave(self.store, self.nursery, request)

    async def slave(self) -> SlavePeer:
        """Return a slave that has the whole log, and has asked for the rest."""
        return await slave_of(self.store, self.nursery)

    def put(self, body: bytes = b"body") -> int:
        """Put a message and wait for it, the burst left open; return its end."""
        send(self.store, body)
        end = self.store.wrote_offset
        self.store.wait_stored(end, lambda status: self._answered(end, status))
        return end

    def burst(self, *bodies: bytes) -> int:
        """Put messages in a burst; return the end of the last one."""
        for body in bodies or (b"body",):
            end = self.put(body)
        self.store.end_burst()
        return end

    def _answered(self, end: int, status: PutMessageStatus) -> None:
        written_end = self.store.max_physical_offset
        self.answers.append(Answer(end, status, trio.current_time(), written_end))


@asynccontextmanager
async def open_sync_master(
    *,
    disk: SimDisk | None = None,
    run_blocking: RunBlocking = run_in_turn,
    **changes: object,
) -> AsyncIterator[SyncMaster]:
    """Open a store on a simulated disk; ``changes`` are of its settings."""
    flushes: list[int] = []
    answers: list[Answer] = []
    place = Place(disk or SimDisk(), "/store")
    async with (
        open_message_store(
            config_for(place, **{"broker_role": BrokerRole.SYNC_MASTER, **changes}),
            disk=place.disk,
            clock=ManualClock(),
            run_blocking=run_blocking,
            store_host=STORE_HOST,
            flush_replies=lambda: flushes.append(len(answers)),
            memory_bytes=1 << 40,
        ) as store,
        trio.open_nursery() as nursery,
    ):
        yield SyncMaster(store, nursery, flushes, answers)
        nursery.cancel_scope.cancel()
