"""When brokers whose connection has ended, or that know no group, get a heartbeat, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.reconnects import (
    GRACE_SECONDS,
    LONGEST_BACKOFF_SECONDS,
    PAUSE_SECONDS,
    RETRY_SECONDS,
    UNROUTED_SECONDS,
    Reconnects,
)
from rocketpy.errors import RemotingConnectError
from tests.forgotten import sizes_within

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


class World:
    """Brokers that are there or away, and what was asked of them and when."""

    def __init__(self) -> None:
        self.routed = [A, B]
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[tuple[str, float]] = []
        self.refresh_count = 0
        self.reconnects = Reconnects(
            addresses=lambda: self.routed, introduce=self.introduce, refresh_routes=self.refresh_routes
        )

    async def introduce(self, address: str) -> None:
        self.asked.append((address, trio.current_time()))
        if address in self.silent:
            await trio.sleep_forever()
        if address in self.away:
            raise RemotingConnectError(address)

    def refresh_routes(self) -> None:
        self.refresh_count += 1

    def end(self, *addresses: str) -> None:
        self.away |= set(addresses)
        for each in addresses:
            self.reconnects.connection_ended(each)

    async def seconds_until_back(self) -> float:
        begun = trio.current_time()
        self.away.clear()
        await self.reconnects.wait_back()
        return trio.current_time() - begun


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.reconnects.run)
        await trio.testing.wait_all_tasks_blocked()
        yield world
        nursery.cancel_scope.cancel()


async def test_a_broker_gets_a_heartbeat_as_soon_as_it_is_back(autojump_clock: MockClock) -> None:
    async with running() as world:
        world.end(A)
        await trio.sleep(100)
        assert world.reconnects.is_settling(A)
        assert not world.reconnects.is_settling(B)
        assert await world.seconds_until_back() <= RETRY_SECONDS
        assert {address for address, _ in world.asked} == {A}
        await trio.sleep(GRACE_SECONDS / 2)
        assert world.reconnects.is_settling(A), "others are still coming back"
        await trio.sleep(GRACE_SECONDS / 2)
        assert not world.reconnects.is_settling(A)
        asked_count = len(world.asked)
        await trio.sleep(100)
        assert len(world.asked) == asked_count


async def test_a_broker_that_is_silent_does_not_delay_another(autojump_clock: MockClock) -> None:
    async with running() as world:
        world.silent = {A}
        world.end(A, B)
        await trio.sleep(10)
        assert await world.seconds_until_back() <= RETRY_SECONDS


async def test_a_connection_that_ends_again_and_again_causes_a_heartbeat_a_second(autojump_clock: MockClock) -> None:
    async with running() as world:
        for _ in range(1000):
            world.reconnects.connection_ended(A)
            await trio.sleep(0.01)
    assert len(world.asked) <= 10 / PAUSE_SECONDS + 1


async def test_many_queues_that_are_refused_cause_one_heartbeat_per_broker(autojump_clock: MockClock) -> None:
    async with running() as world, trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(world.reconnects.introduced, A)
            nursery.start_soon(world.reconnects.introduced, B)
    assert sorted(address for address, _ in world.asked) == [A, B]


async def test_a_broker_that_goes_on_refusing_gets_heartbeats_ever_more_seldom(autojump_clock: MockClock) -> None:
    async with running() as world:
        with trio.move_on_after(600):
            while True:
                await world.reconnects.introduced(A)
                await trio.sleep(0.1)
        times = [at for _, at in world.asked]
        pauses = [round(after - before) for before, after in pairwise(times)]
        assert pauses == sorted(pauses)
        assert pauses[-1] == LONGEST_BACKOFF_SECONDS
        await trio.sleep(3 * LONGEST_BACKOFF_SECONDS)
        assert await world.reconnects.introduced(A), "it has worked for long"
        await trio.sleep(RETRY_SECONDS)
        assert await world.reconnects.introduced(A)


async def test_a_reader_that_is_cancelled_here_leaves_the_heartbeat_to_the_others(autojump_clock: MockClock) -> None:
    async with running() as world:
        world.silent = {A}
        async with trio.open_nursery() as others:
            others.start_soon(world.reconnects.introduced, A)
            with trio.move_on_after(0.1):
                await world.reconnects.introduced(A)
            world.silent.clear()
        assert len(world.asked) == 2, "one for both, and once more because the broker was silent"


async def test_a_broker_without_route_is_waited_for_and_its_route_asked_for_when_it_answers(
    autojump_clock: MockClock,
) -> None:
    async with running() as world:
        world.end(A)
        world.routed = [B]
        await trio.sleep(20)
        assert world.refresh_count == 0
        world.away.clear()
        await trio.sleep(2)
        assert world.refresh_count > 0
        assert world.reconnects.is_settling(A)
        world.routed = [A, B]
        assert await world.seconds_until_back() <= RETRY_SECONDS


async def test_a_broker_without_route_is_given_up_and_forgotten(autojump_clock: MockClock) -> None:
    async with running() as world:
        assert await world.reconnects.introduced(A)
        world.end(A)
        world.routed = [B]
        assert await world.reconnects.introduced(A), "whoever waits for it goes on"
        assert world.asked[-1][1] - world.asked[0][1] <= UNROUTED_SECONDS + 2
        assert not world.reconnects.is_settling(A)
        assert not any(key.startswith("Reconnects._back") for key in sizes_within(world.reconnects))


async def test_nothing_is_done_for_a_client_without_consumers_and_for_peers_that_are_no_brokers(
    autojump_clock: MockClock,
) -> None:
    async with running() as world:
        world.reconnects.connection_ended("10.0.0.3:9876")
        world.end(A)
        world.routed = []
        await trio.sleep(10)
        world.end(B)
        await trio.sleep(100)
    assert {address for address, _ in world.asked} <= {A}
    assert len(world.asked) <= 1
