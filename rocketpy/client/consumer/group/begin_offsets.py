"""Start offsets of queues that a rebalance assigns to a member of a group.

Compatibility: ``RebalancePushImpl.computePullFromWhereWithException`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.start import QueueOffsets, offset_without_progress
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import MessageQueue

HALF_AN_HOUR_MS = 30 * 60 * 1000


class BeginPolicy(Protocol):
    """The settings that decide where a group without progress begins."""

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """The policy."""
        ...

    @property
    def consume_timestamp(self) -> int | None:
        """The wall time in ms of CONSUME_FROM_TIMESTAMP; half an hour before the start if it is None."""
        ...


@attrs.frozen
class BeginOffsets:
    """The stored progress of the group, or else what ``consume_from_where`` says."""

    config: BeginPolicy
    store: OffsetStore
    queue_offsets: QueueOffsets
    started_at_ms: int
    """When the member was created, on the wall clock."""

    async def find(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offsets of those queues for which they are known; the stored ones are in the table from now on."""
        begins: dict[MessageQueue, int] = {}
        async with trio.open_nursery() as nursery:
            for queue in queues:
                self.store.table.forget(queue)
                nursery.start_soon(self._find, queue, begins)
        return begins

    async def _find(self, queue: MessageQueue, begins: dict[MessageQueue, int]) -> None:
        config = self.config
        with suppress(RocketpyError):  # it is tried again with the next rebalance
            stored = await self.store.fetch(queue)
            if stored is not None and stored >= 0:
                self.store.table.update(queue, stored, increase_only=False)
                begins[queue] = stored
                return
            timestamp_ms = config.consume_timestamp
            if timestamp_ms is None:
                timestamp_ms = self.started_at_ms - HALF_AN_HOUR_MS
            begin = await offset_without_progress(queue, self.queue_offsets, config.consume_from_where, timestamp_ms)
            if begin >= 0:
                begins[queue] = begin
