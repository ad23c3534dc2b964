"""The bounded pool of slow commands."""

from __future__ import annotations

import trio

from rocketpy.remoting.task_pool import TaskKind, TaskPool


async def test_it_refuses_above_its_bound_and_takes_again_afterwards() -> None:
    gate = trio.Event()

    async def wait() -> None:
        await gate.wait()

    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery=nursery, tasks_max=2)
        assert pool.start(1, TaskKind.READ, wait)
        assert pool.start(1, TaskKind.READ, wait)
        assert not pool.start(1, TaskKind.READ, wait)
        assert pool.running_count == 2
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert pool.running_count == 0
        assert pool.start(1, TaskKind.READ, wait)


def test_it_refuses_without_a_nursery() -> None:
    async def never() -> None:
        raise AssertionError

    assert not TaskPool().start(1, TaskKind.READ, never)
