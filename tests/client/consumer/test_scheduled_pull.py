"""When pull tasks are called, in virtual time: delays, failures, queues that come and go."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.group.assignment_changes import AssignmentChanges
from rocketpy.client.consumer.scheduled_pull import PullTask, ScheduledPull
from rocketpy.errors import RemotingTimeoutError
from rocketpy.protocol.message import MessageQueue

QUEUES = [MessageQueue("T", "b", each) for each in range(3)]


@asynccontextmanager
async def scheduled(task: PullTask, queues: Sequence[MessageQueue] = QUEUES[:1]) -> AsyncIterator[AssignmentChanges]:
    """Calls of a task for these queues; they end with the block."""
    changes = AssignmentChanges()
    changes.note("T", QUEUES, queues)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ScheduledPull("T", task).run, aiter(changes))
        yield changes
        changes.close()


class Task:
    """A pull task that notes when it was called, and does what the next of its results says."""

    def __init__(self, *results: float | Exception | None) -> None:
        self.results = list(results)
        self.calls: list[tuple[float, int]] = []
        self._begun = trio.current_time()

    async def __call__(self, queue: MessageQueue) -> float | None:
        self.calls.append((round(trio.current_time() - self._begun, 3), queue.queue_id))
        await trio.lowlevel.checkpoint()
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result


async def test_a_call_says_when_the_next_one_is(autojump_clock: MockClock) -> None:
    task = Task(5, 0.5, None, None, math.inf)
    async with scheduled(task):
        await trio.sleep(100)
    assert task.calls == [(0, 0), (5, 0), (5.5, 0), (5.7, 0), (5.9, 0)]


@pytest.mark.parametrize("failure", [ZeroDivisionError(), AssertionError(), RemotingTimeoutError("late")])
async def test_a_call_that_fails_is_repeated_after_a_second(
    autojump_clock: MockClock, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    task = Task(failure, math.inf)
    with caplog.at_level(logging.WARNING, "rocketpy.client"):
        async with scheduled(task):
            await trio.sleep(100)
    assert task.calls == [(0, 0), (1, 0)]
    (record,) = caplog.records
    assert "the pull task of " in record.getMessage()


async def test_a_delay_that_is_none_is_a_failure(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    task = Task(-1, math.nan, math.inf)
    async with scheduled(task):
        await trio.sleep(100)
    assert task.calls == [(0, 0), (1, 0), (2, 0)]
    assert "expected the seconds until the next pull" in caplog.text


async def test_queues_are_called_concurrently_as_they_come_and_go(autojump_clock: MockClock) -> None:
    task = Task(*[10.0] * 20)
    async with scheduled(task, QUEUES[:2]) as changes:
        await trio.sleep(5)
        changes.note("Other", QUEUES, [])
        changes.note("T", QUEUES, QUEUES[1:])
        await trio.sleep(19)
    assert sorted(task.calls) == [(0, 0), (0, 1), (5, 2), (10, 1), (15, 2), (20, 1)]


async def test_a_call_comes_to_its_end_and_a_queue_that_comes_back_waits_for_it(autojump_clock: MockClock) -> None:
    begun: list[float] = []
    ended: list[float] = []

    async def task(queue: MessageQueue) -> float:
        begun.append(trio.current_time())
        await trio.sleep(10)
        ended.append(trio.current_time())
        return 100

    start = trio.current_time()
    async with scheduled(task) as changes:
        await trio.sleep(1)
        changes.note("T", QUEUES, [])
        await trio.sleep(1)
        changes.note("T", QUEUES, QUEUES[:1])
        await trio.sleep(1)
        assert len(begun) == 1, "the first call still runs"
        await trio.sleep(10)
        changes.note("T", QUEUES, [])
        await trio.sleep(1)
        changes.note("T", QUEUES, QUEUES[:1])
        await trio.sleep(1)
    assert [each - start for each in begun] == [0, 14]
    assert [each - start for each in ended] == [10, 24], "the end of the consumer waits for the last call"
