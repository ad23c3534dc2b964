"""When heartbeats go out."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.client.services.heartbeat import HeartbeatService


async def test_every_interval_and_soon_after_a_wake_up(autojump_clock: trio.testing.MockClock) -> None:
    sent_at: list[float] = []
    begun = trio.current_time()

    async def send() -> None:
        sent_at.append(trio.current_time() - begun)

    async with trio.open_nursery() as nursery:
        service = HeartbeatService(send=send, interval_s=30)
        await nursery.start(service.run)
        await trio.sleep(65)
        service.wake()
        service.wake()
        await trio.sleep(31)
        nursery.cancel_scope.cancel()
    assert sent_at == [30, 60, 65, 95]


async def test_a_wake_up_while_sending_is_not_lost(autojump_clock: trio.testing.MockClock) -> None:
    sent_at: list[float] = []
    begun = trio.current_time()

    async def send() -> None:
        sent_at.append(trio.current_time() - begun)
        await trio.sleep(5)

    async with trio.open_nursery() as nursery:
        service = HeartbeatService(send=send, interval_s=30)
        service.wake()  # also before it runs
        await nursery.start(service.run)
        await trio.sleep(1)
        service.wake()
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert sent_at == [0, 5]
