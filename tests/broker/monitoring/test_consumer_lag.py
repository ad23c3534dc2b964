"""Groups that stand still while messages wait: a line when they do, a line when they go on, and figures."""

from __future__ import annotations

import logging
from typing import cast

import pytest
import trio
import trio.testing

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.monitoring.consumer_lag import (
    PERIOD_SECONDS,
    QUEUES_PER_SLICE,
    STUCK_SECONDS,
    ConsumerLagService,
)
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode
from rocketpy.store.message_store import MessageStore
from tests.broker.tables_of_a_broker import Tables
from tests.turns import counted_turns


class Ends:
    """As much of a store as is asked: where queues end."""

    def __init__(self) -> None:
        self.max_offset = 10

    def max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.max_offset


class Lag:
    """The service over tables in which group G is online and has offsets in topic T."""

    def __init__(self, tables: Tables, model: str = "CLUSTERING") -> None:
        self.tables = tables
        self.ends = Ends()
        self.service = ConsumerLagService(
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=cast(MessageStore, self.ends),
        )
        client = ClientChannelInfo(self, "c1", LanguageCode.JAVA, 409, 0.0)  # type: ignore[arg-type]
        data = ConsumerData("G", message_model=model, subscription_data_set=[SubscriptionData("T")])
        tables.consumers.register_consumer(client, data)

    def commit(self, offset: int, queue_id: int = 0) -> None:
        self.tables.offsets.commit_offset("", "G", "T", queue_id, offset)

    @property
    def figures(self) -> tuple[str, str]:
        info = self.service.runtime_info()
        return info["consumerLagTotal"], info["stuckConsumerQueues"]


@pytest.fixture
def lag(tables: Tables, caplog: pytest.LogCaptureFixture) -> Lag:
    caplog.set_level(logging.INFO, "rocketpy.broker")
    return Lag(tables)


async def test_a_queue_that_stands_still_is_named_once_and_once_more_when_it_goes_on(
    lag: Lag, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    lag.commit(4)
    await lag.service.look()
    assert lag.figures == ("6", "0")
    await trio.sleep(STUCK_SECONDS - 1)
    await lag.service.look()
    assert caplog.messages == []
    await trio.sleep(1)
    await lag.service.look()
    await lag.service.look()
    (record,) = caplog.records
    assert record.getMessage() == "group is stuck: its offset does not move while messages wait"
    place = {"group": "G", "topic": "T", "queueId": 0}
    assert record.__dict__["fields"] == {**place, "offset": 4, "seconds": 300, "waiting": 6}
    assert lag.figures == ("6", "1")
    lag.commit(5)
    await lag.service.look()
    assert caplog.messages[1:] == ["group is no longer stuck"]
    assert lag.figures == ("5", "0")


async def test_a_group_at_the_end_waits_for_nothing(lag: Lag, autojump_clock: trio.testing.MockClock) -> None:
    lag.commit(10)
    lag.commit(12, queue_id=1)
    for _ in range(2):
        await lag.service.look()
        await trio.sleep(STUCK_SECONDS)
    assert lag.figures == ("0", "0")


async def test_a_group_that_moves_is_slow_and_not_stuck(lag: Lag, autojump_clock: trio.testing.MockClock) -> None:
    for offset in range(4):
        lag.commit(offset)
        await lag.service.look()
        await trio.sleep(STUCK_SECONDS - 1)
    assert lag.figures == ("7", "0")


@pytest.mark.parametrize("is_reported", [False, True])
async def test_a_group_that_is_gone_counts_no_more(
    lag: Lag, autojump_clock: trio.testing.MockClock, is_reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lag.commit(4)
    await lag.service.look()
    if is_reported:
        await trio.sleep(STUCK_SECONDS)
        await lag.service.look()
    lag.tables.consumers.unregister_consumer("G", lag)  # type: ignore[arg-type]
    await lag.service.look()
    assert lag.figures == ("0", "0")


async def test_who_broadcasts_keeps_its_own_offsets(tables: Tables) -> None:
    lag = Lag(tables, model="BROADCASTING")
    lag.commit(4)
    await lag.service.look()
    assert lag.service.statistics().queue_count == 0


async def test_many_queues_are_looked_at_in_slices(lag: Lag) -> None:
    for queue_id in range(4 * QUEUES_PER_SLICE):
        lag.commit(9, queue_id)
    async with counted_turns() as turns:
        await lag.service.look()
    assert turns.count >= 2
    assert lag.figures == (str(4 * QUEUES_PER_SLICE), "0")


async def test_it_looks_every_half_minute(
    lag: Lag, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    lag.commit(4)
    await nursery.start(lag.service.run)
    assert lag.figures == ("0", "0")
    await trio.sleep(PERIOD_SECONDS + 1)
    assert lag.figures == ("6", "0")
