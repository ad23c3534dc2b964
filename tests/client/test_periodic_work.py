"""A failure that nobody has foreseen ends one round of a client's periodic work, and no member that it serves."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Never

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.offsets.opening import persist_regularly
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.reconnects import Reconnects
from rocketpy.client.services.repeated_call import RepeatedCallService
from rocketpy.client.trace.trace_dispatcher import TraceDispatcher
from rocketpy.clock import SystemClock
from rocketpy.protocol.message import MessageQueue
from tests.client.trace.records import after

QUEUE = MessageQueue("T", "b", 0)


class Failing:
    """Fails in every call of everything, with what no code expects, and counts the calls."""

    def __init__(self) -> None:
        self.count = 0

    def now(self, *_: object) -> Never:
        self.count += 1
        raise ZeroDivisionError("not foreseen")

    async def later(self, *_: object) -> Never:
        self.now()

    topics = now  # of a rebalance's knowledge
    master_address = later  # of the requests for locks
    send = later  # of a producer of traces


async def reconnect(failing: Failing) -> None:
    reconnects = Reconnects(addresses=lambda: ["b:1"], introduce=failing.later, refresh_routes=lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reconnects.run)
        while True:
            reconnects.connection_ended("b:1")
            await trio.sleep(1)


async def send_traces(failing: Failing) -> None:
    dispatcher = TraceDispatcher("traces")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run, failing)
        while True:
            dispatcher.append([after(msg_id="id", keys=None)])
            await dispatcher.flush()
            assert dispatcher.statistics().waiting == 0
            await trio.sleep(1)


async def renew_locks(failing: Failing) -> None:
    locks = QueueLocks(requests=failing, clock=SystemClock(), is_needed=True)  # type: ignore[arg-type]
    await locks.run(lambda: [ProcessQueue(QUEUE)], failing.now)


async def rebalance(failing: Failing) -> None:
    service = RebalanceService(
        group="g",
        client_id="me",
        strategy=None,
        knowledge=failing,  # type: ignore[arg-type]
        assignment=failing,  # type: ignore[arg-type]
        on_unlisted=failing.now,
        is_paused=lambda: False,
    )
    await service.run()


WORK: Mapping[str, Callable[[Failing], Awaitable[None]]] = {
    "heartbeats, refreshes of routes": lambda failing: RepeatedCallService(failing.later, interval_s=1).run(),
    "offsets": lambda failing: persist_regularly(failing.later, list, 1_000),
    "reconnections": reconnect,
    "traces": send_traces,
    "renewals of locks": renew_locks,
    "rebalances": rebalance,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_the_next_round_comes_all_the_same(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, work: Callable[[Failing], Awaitable[None]]
) -> None:
    failing = Failing()
    with trio.move_on_after(100):
        await work(failing)
    assert failing.count >= 2
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == failing.count


async def test_statistics_are_sampled_all_the_same(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing()
    monkeypatch.setattr(ConsumerStats, "sample", failing.now)
    with trio.move_on_after(100):
        await ConsumerStats().run()
    assert failing.count >= 2
