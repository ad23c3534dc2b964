"""A round of a service that meets an unforeseen value in a peer's data is abandoned, and the next one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import trio

from rocketpy.broker.clients.housekeeping import ClientHousekeepingService
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.monitoring.consumer_lag import ConsumerLagService
from rocketpy.broker.monitoring.slow_consumer import SlowConsumerService
from rocketpy.broker.monitoring.stats_service import BrokerStatsService
from rocketpy.errors import StoreError
from rocketpy.remoting.connection import Connection


class Rounds:
    """Stands in for what a round asks: the first time it fails, and the third has come."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.count = 0
        self.third = trio.Event()

    def work(self) -> None:
        self.count += 1
        if self.count == 1:
            raise self.failure
        if self.count == 3:
            self.third.set()


class Asked:
    """Every collaborator of a service at once: empty, and one of its questions is the work of a round."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self.noted = DelayProgress({}, None)
        self.offset_table: dict[int, int] = {}
        self.has_begun = False

    # of statistics
    def sample(self, window: object, now: float) -> Iterator[None]:
        self._rounds.work()
        return iter(())

    def lines(self, window: object) -> Iterator[str]:
        return iter(())

    moment_lines = commercial_lines = lines

    def fall_bytes(self) -> dict[str, int]:
        self._rounds.work()
        return {}

    # of the tables of clients
    def scan_not_active_channel(self) -> list[Connection]:
        self._rounds.work()
        return []

    def drop_expired(self) -> int:
        return 0

    clean = drop_expired

    def __iter__(self) -> Iterator[object]:
        self._rounds.work()
        return iter(())

    # of delayed messages: the clock is asked in each round
    def queues(self) -> list[tuple[str, int]]:
        return []

    def max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return 0

    min_offset_in_queue = max_offset_in_queue

    def begin(self) -> None:
        self.has_begun = True

    def timestamp_ms(self) -> int:
        if self.has_begun:
            self._rounds.work()
        return 1_700_000_000_000


def stats_service(asked: Any) -> Service:
    return BrokerStatsService(stats=asked, broker_stats=asked, clock=asked)


def housekeeping_service(asked: Any) -> Service:
    return ClientHousekeepingService(
        config=BrokerConfig(),
        consumer_manager=asked,
        producer_manager=asked,
        rebalance_lock_manager=asked,
        consumer_filter_manager=asked,
        group_changed=lambda group: None,
    )


def consumer_lag_service(asked: Any) -> Service:
    return ConsumerLagService(consumer_manager=asked, consumer_offset_manager=asked, store=asked)


def delay_service(asked: Any) -> Service:
    return ScheduleMessageService(
        store=asked,
        levels=DelayLevels.parse("1s"),
        offsets=asked,
        clock=asked,
        flush_interval_ms=1000,
        serve_woken=lambda: None,
        dead_letters=asked,
        stats=None,
    )


def slow_consumer_service(asked: Any) -> Service:
    config = BrokerConfig(disable_consume_if_consumer_read_slowly=True)
    return SlowConsumerService(config=config, stats=asked, subscription_group_manager=asked)


class Service(Protocol):
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None: ...


SERVICES = [stats_service, housekeeping_service, consumer_lag_service, delay_service, slow_consumer_service]


@pytest.mark.parametrize("make_service", SERVICES)
async def test_a_round_that_fails_ends_alone(
    make_service: Callable[[object], Service], caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    rounds = Rounds(ZeroDivisionError("a peer's data"))
    service = make_service(Asked(rounds))
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await rounds.third.wait()
        nursery.cancel_scope.cancel()
    (line,) = [text for text in caplog.messages if "failed unexpectedly" in text]
    assert line.endswith("only that was given up")


@pytest.mark.parametrize("make_service", SERVICES)
async def test_what_makes_the_store_doubtful_ends_the_broker(
    make_service: Callable[[object], Service], autojump_clock: object
) -> None:
    rounds = Rounds(StoreError("torn", path="/f"))
    service = make_service(Asked(rounds))
    with pytest.RaisesGroup(StoreError, flatten_subgroups=True, allow_unwrapped=False):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            await rounds.third.wait()
