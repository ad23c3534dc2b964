"""Ticks: of which services of one period share every one, and none is missed."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.ticks import next_tick


async def test_services_that_began_at_different_times_wake_together(autojump_clock: trio.testing.MockClock) -> None:
    woken: dict[float, list[str]] = {}

    async def tick(name: str, period_s: float) -> None:
        for _ in range(4):
            await trio.sleep_until(next_tick(period_s))
            woken.setdefault(round(trio.current_time(), 6), []).append(name)

    async with trio.open_nursery() as nursery:
        for name, delay_s, period_s in (("a", 0.2, 1.0), ("b", 0.5, 1.0), ("c", 0.1, 0.5)):
            await trio.sleep(delay_s)
            nursery.start_soon(tick, name, period_s)
    assert {at: sorted(names) for at, names in woken.items()} == {
        1.0: ["a", "b", "c"],
        1.5: ["c"],
        2.0: ["a", "b", "c"],
        2.5: ["c"],
        3.0: ["a", "b"],
        4.0: ["a", "b"],
    }


@given(start=st.floats(0, 1e6), period_s=st.floats(0.001, 1e4))
def test_each_tick_is_a_period_after_the_one_before(start: float, period_s: float) -> None:
    async def main() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(start)
        first = next_tick(period_s)
        assert 0 < first - start <= period_s * 1.0011
        clock.jump(first - start)
        for _ in range(3):
            now = trio.current_time()
            following = next_tick(period_s)
            assert following - now == pytest.approx(period_s, rel=0.0011)
            clock.jump(following - now)

    trio.run(main, clock=trio.testing.MockClock())


@pytest.mark.parametrize("period_s", [0.0, -1.0])
async def test_without_a_period_the_next_tick_is_now(period_s: float, mock_clock: trio.testing.MockClock) -> None:
    assert next_tick(period_s) == trio.current_time()
