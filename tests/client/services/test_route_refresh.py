"""When routes are looked up again."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.client.services.route_refresh import RouteRefreshService


async def test_every_interval_and_soon_when_in_doubt(autojump_clock: trio.testing.MockClock) -> None:
    refreshed_at: list[float] = []
    begun = trio.current_time()

    async def refresh() -> None:
        refreshed_at.append(trio.current_time() - begun)

    async with trio.open_nursery() as nursery:
        service = RouteRefreshService(refresh=refresh, interval_s=30)
        await nursery.start(service.run)
        await trio.sleep(62)
        service.wake()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert refreshed_at == [29, 59, 62]


async def test_never_more_than_once_a_second(autojump_clock: trio.testing.MockClock) -> None:
    count = 0

    async def refresh() -> None:
        nonlocal count
        count += 1

    async with trio.open_nursery() as nursery:
        service = RouteRefreshService(refresh=refresh, interval_s=30)
        await nursery.start(service.run)
        for _ in range(1000):  # every send to a dead broker doubts
            service.wake()
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert 10 <= count <= 11
