"""Where a member begins a queue."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.group.begin_offsets import HALF_AN_HOUR_MS, BeginOffsets
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.states import ClientStates
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import MessageQueue

STORED, WITHOUT, UNKNOWN = (MessageQueue("T", "broker-a", each) for each in range(3))
STARTED_AT_MS = 1_700_000_000_000


class Store:
    """Progress of one queue; of another one it is not known."""

    def __init__(self) -> None:
        self.table = OffsetTable()

    async def fetch(self, queue: MessageQueue) -> int | None:
        await trio.lowlevel.checkpoint()
        if queue == UNKNOWN:
            raise RemotingConnectError("10.0.0.1:10911")
        return 5 if queue == STORED else None

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        raise AssertionError("nothing is stored where a queue begins")

    persist_soon = persist


class Ends:
    """Every queue has the offsets from 3 on, up to 9; those since a time are asked for by it."""

    searched_ms = 0

    async def min_offset(self, queue: MessageQueue) -> int:
        return 3

    async def max_offset(self, queue: MessageQueue) -> int:
        return 9

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        self.searched_ms = timestamp_ms
        return 7

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        raise AssertionError("progress is the store's")


async def _found(ends: Ends, store: Store, **settings: object) -> dict[MessageQueue, int]:
    config = ConsumerConfig(**settings)  # type: ignore[arg-type]
    return await BeginOffsets(config, store, ends, STARTED_AT_MS, ClientStates()).find([STORED, WITHOUT, UNKNOWN])


async def test_stored_progress_comes_before_the_policy_and_a_queue_without_an_answer_is_left_out() -> None:
    store = Store()
    assert await _found(Ends(), store) == {STORED: 5, WITHOUT: 9}
    assert store.table.get(STORED) == 5
    assert store.table.get(WITHOUT) is None, "nothing is committed before a message was acknowledged"


async def test_what_was_in_memory_from_an_earlier_assignment_does_not_count() -> None:
    store = Store()
    for queue in (STORED, WITHOUT):
        store.table.update(queue, 8)
    assert await _found(Ends(), store) == {STORED: 5, WITHOUT: 9}
    assert (store.table.get(STORED), store.table.get(WITHOUT)) == (5, None)


@pytest.mark.parametrize(
    ("settings", "searched_ms"), [({}, STARTED_AT_MS - HALF_AN_HOUR_MS), ({"consume_timestamp": 77}, 77)]
)
async def test_a_group_begins_at_its_time_by_default_half_an_hour_before_the_member_began(
    settings: dict[str, object], searched_ms: int
) -> None:
    ends = Ends()
    found = await _found(ends, Store(), consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, **settings)
    assert found[WITHOUT] == 7
    assert ends.searched_ms == searched_ms - 1, "so that nothing of that very time is skipped"
