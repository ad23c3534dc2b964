"""Start offsets of queues that a rebalance assigns to a member of a group.

Compatibility: ``RebalancePushImpl.computePullFromWhereWithException`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.start import QueueOffsets, offset_without_progress
from rocketpy.client.states import ClientStates, StateSubject
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
    states: ClientStates

    async def find(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offsets of those queues for which they are known; the stored ones are in the table from now on."""
        begins: dict[MessageQueue, int] = {}
        async with trio.open_nursery() as nursery:
            for queue in queues:
                self.store.table.forget(queue)
                nursery.start_soon(self._find, queue, begins)
        return begins

    async def _find(self, queue: MessageQueue, begins: dict[MessageQueue, int]) -> None:
        name = f"{queue.topic} {queue.broker_name} {queue.queue_id}"
        try:
            begin = await self._begin(queue)
        except RocketpyError as failure:  # it is tried again with the next rebalance
            self.states.fails(StateSubject.START_OFFSET, name, failure)
            return
        self.states.works(StateSubject.START_OFFSET, name)
        if begin >= 0:
            begins[queue] = begin

    async def _begin(self, queue: MessageQueue) -> int:
        config = self.config
        stored = await self.store.fetch(queue)
        if stored is not None and stored >= 0:
            self.store.table.update(queue, stored, increase_only=False)
            return stored
        timestamp_ms = config.consume_timestamp
        if timestamp_ms is None:
            timestamp_ms = self.started_at_ms - HALF_AN_HOUR_MS
        return await offset_without_progress(queue, self.queue_offsets, config.consume_from_where, timestamp_ms)
