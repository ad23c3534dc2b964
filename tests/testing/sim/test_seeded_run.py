"""A run that is a function of its seed."""

from __future__ import annotations

import pytest
import trio

from rocketpy.testing.sim.seeded_run import run_seeded
from tests.task_order import TRIO_RANDOM


def order_of_tasks(seed: object) -> list[int]:
    order: list[int] = []

    async def note(number: int) -> None:
        for _ in range(5):
            await trio.sleep(1)
            order.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(note, number)

    run_seeded(main, seed=seed)
    return order


def test_a_seed_decides_the_order_of_tasks() -> None:
    assert order_of_tasks(1) == order_of_tasks(1)
    assert len({tuple(order_of_tasks(seed)) for seed in range(10)}) > 5


def test_time_is_virtual_and_begins_at_zero() -> None:
    async def main() -> float:
        began = trio.current_time()
        await trio.sleep(86_400)
        assert began == 0.0
        return trio.current_time()

    assert run_seeded(main, seed=0) == 86_400


def test_what_comes_after_it_is_shuffled_as_if_it_had_not_been() -> None:
    state = TRIO_RANDOM.getstate()
    order_of_tasks(3)
    assert TRIO_RANDOM.getstate() == state


def test_a_failure_is_raised_and_the_order_restored() -> None:
    state = TRIO_RANDOM.getstate()

    async def main() -> None:
        await trio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_seeded(main, seed=0)
    assert TRIO_RANDOM.getstate() == state
