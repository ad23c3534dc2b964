"""Held tasks: no step while the gate is closed, and nothing lost afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from rocketpy.testing.sim.seeded_run import run_seeded
from rocketpy.testing.sim.task_gate import TaskGate

Scene = Callable[[trio.Nursery, TaskGate], Awaitable[None]]


def run(scene: Scene) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            gate = TaskGate()
            try:
                await scene(nursery, gate)
            finally:
                gate.open()
            nursery.cancel_scope.cancel()

    run_seeded(main, seed=0)


def test_a_held_task_takes_no_step_and_others_do() -> None:
    steps: list[str] = []

    async def step(name: str) -> None:
        while True:
            await trio.sleep(1)
            steps.append(name)

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.start_soon(nursery, step, "held")
        nursery.start_soon(step, "free")
        await trio.sleep(1.5)
        gate.close()
        await trio.sleep(10)
        assert sorted(steps) == ["free"] * 11 + ["held"]
        gate.open()
        await trio.sleep(1.5)
        assert steps.count("held") == 3, "the sleep that was over meanwhile, and the next one"

    run(scene)


def test_tasks_of_a_task_belong_to_its_gate() -> None:
    steps: list[int] = []

    async def child() -> None:
        while True:
            await trio.sleep(1)
            steps.append(1)

    async def parent() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(child)

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.start_soon(nursery, parent)
        await trio.sleep(1.5)
        gate.close()
        await trio.sleep(10)
        assert steps == [1]

    run(scene)


def test_what_arrives_meanwhile_is_there_afterwards() -> None:
    received: list[object] = []
    send, receive = trio.open_memory_channel[str](0)

    async def take() -> None:
        received.append(await receive.receive())
        with pytest.raises(trio.ClosedResourceError):
            await receive.receive()
        received.append("closed")

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.start_soon(nursery, take)
        await trio.sleep(1)
        gate.close()
        await send.send("value")
        await trio.sleep(1)
        assert received == []
        gate.open()
        await trio.sleep(1)
        gate.close()
        receive.close()  # an exception arrives
        await trio.sleep(1)
        assert received == ["value"]
        gate.open()
        await trio.sleep(1)
        assert received == ["value", "closed"]

    run(scene)


def test_a_task_that_begins_behind_a_closed_gate_waits_for_its_first_step() -> None:
    begun: list[float] = []

    async def begin() -> None:
        begun.append(trio.current_time())

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.close()
        gate.start_soon(nursery, begin)
        await trio.sleep(5)
        gate.open()
        gate.close()  # before it could take a step
        await trio.sleep(5)
        gate.open()
        await trio.sleep(5)
        assert begun == [10.0]

    run(scene)


@pytest.mark.parametrize("by_deadline", [True, False])
def test_a_cancellation_is_delivered_afterwards(by_deadline: bool) -> None:
    scope = trio.CancelScope()
    ended: list[float] = []

    async def wait() -> None:
        with scope:
            await trio.sleep_forever()
        ended.append(trio.current_time())

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        if by_deadline:
            scope.deadline = 2.0
        gate.start_soon(nursery, wait)
        await trio.sleep(1)
        gate.close()
        await trio.sleep(1)
        if not by_deadline:
            scope.cancel()
        await trio.sleep(3)
        assert ended == []
        gate.open()
        await trio.sleep(1)
        assert ended == [5.0]

    run(scene)


def test_a_cancellation_that_comes_while_a_value_is_held_is_delivered_at_the_next_wait() -> None:
    scope = trio.CancelScope()
    send, receive = trio.open_memory_channel[str](0)
    received: list[str] = []

    async def take() -> None:
        with scope:
            received.append(await receive.receive())
            received.append(await receive.receive())

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.start_soon(nursery, take)
        await trio.sleep(1)
        gate.close()
        await send.send("value")
        await trio.sleep(1)
        scope.cancel()
        await trio.sleep(1)
        gate.open()
        await trio.sleep(1)
        assert received == ["value"]
        assert scope.cancelled_caught

    run(scene)


def test_an_exception_of_a_task_leaves_it_as_ever() -> None:
    async def fail() -> None:
        await trio.sleep(1)
        raise ZeroDivisionError

    async def scene(nursery: trio.Nursery, gate: TaskGate) -> None:
        gate.start_soon(nursery, fail)
        await trio.sleep(5)

    with pytest.raises(BaseExceptionGroup) as caught:
        run(scene)
    assert caught.group_contains(ZeroDivisionError)
