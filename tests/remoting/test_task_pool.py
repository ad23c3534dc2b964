"""The bounded pool of slow commands and cold reads."""

from __future__ import annotations

import weakref

import pytest
import trio
import trio.testing

from rocketpy.remoting.task_pool import COMMANDS_PER_OWNER_MAX, READS_PER_OWNER_MAX, TaskKind, TaskPool
from tests.forgotten import is_forgotten


class Owner:
    """As a connection: tasks are counted for it."""


async def test_it_refuses_above_its_bound_and_takes_again_afterwards() -> None:
    gate = trio.Event()
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery=nursery, tasks_max=2)
        assert pool.start(1, TaskKind.READ, gate.wait)
        assert pool.start(2, TaskKind.READ, gate.wait)
        assert not pool.start(3, TaskKind.READ, gate.wait)
        assert pool.running_count == 2
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert pool.running_count == 0
        assert pool.start(3, TaskKind.READ, gate.wait)


async def test_commands_leave_a_share_for_reads() -> None:
    """A thousand relays to a consumer that never answers must not keep others from reading what is cold."""
    gate = trio.Event()
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery=nursery, tasks_max=5, commands_max=3)
        assert [pool.start(owner, TaskKind.COMMAND, gate.wait) for owner in range(5)] == [True] * 3 + [False] * 2
        assert [pool.start(owner, TaskKind.READ, gate.wait) for owner in range(3)] == [True, True, False]
        gate.set()


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(TaskKind.COMMAND, COMMANDS_PER_OWNER_MAX), (TaskKind.READ, READS_PER_OWNER_MAX)],
    ids=["commands", "reads"],
)
async def test_no_connection_has_the_pool_for_itself(kind: TaskKind, limit: int) -> None:
    gate = trio.Event()
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery=nursery)
        greedy, other = Owner(), Owner()
        assert sum(pool.start(greedy, kind, gate.wait) for _ in range(2 * limit)) == limit
        assert pool.start(other, kind, gate.wait)
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert pool.start(greedy, kind, gate.wait)
        await trio.testing.wait_all_tasks_blocked()
        reference = weakref.ref(greedy)
        del greedy
        assert is_forgotten(reference), "an owner without tasks is forgotten"


def test_it_refuses_without_a_nursery() -> None:
    async def never() -> None:
        raise AssertionError

    assert not TaskPool().start(1, TaskKind.READ, never)
