"""Catching up goes on step by step until it is over, and waits where it cannot go on."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.store.index.reput_message import ReputMessageService


@attrs.define(eq=False)
class Steps:
    behind_bytes: int
    is_full: bool = False
    step_count: int = 0
    error: StoreError | None = None

    async def step(self) -> bool:
        self.step_count += 1
        if self.error is not None:
            raise self.error
        if self.is_full:
            return True
        if self.behind_bytes == 0:
            return False
        self.behind_bytes -= 1
        return True


async def test_it_ends_when_it_has_caught_up(autojump_clock: trio.testing.MockClock) -> None:
    steps = Steps(100)
    service = ReputMessageService(catch_up=steps)
    assert service.behind_bytes == 100
    await service.run()
    assert (service.behind_bytes, steps.step_count) == (0, 101)
    assert trio.current_time() == 0, "without a pause"


async def test_it_waits_where_there_is_no_space(autojump_clock: trio.testing.MockClock) -> None:
    steps = Steps(10, is_full=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(ReputMessageService(catch_up=steps).run)
        await trio.sleep(5.5)
        assert steps.step_count <= 7
        steps.is_full = False
        await trio.sleep(2)
    assert steps.behind_bytes == 0


async def test_a_broken_disk_ends_it() -> None:
    with pytest.raises(StoreError):
        await ReputMessageService(catch_up=Steps(1, error=StoreError("cannot read", path="/log"))).run()
