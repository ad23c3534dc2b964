"""The result of a send: awaited by nobody, by one, by many."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.errors import RemotingTimeoutError
from rocketpy.protocol.message import MessageQueue
from tests.client.cancelled_everywhere import cancelled_at
from tests.patience import PATIENCE_SECONDS

RESULT = SendResult(SendStatus.SEND_OK, "id", "offset id", MessageQueue("T", "a", 0), 7, "region")


async def test_many_may_wait_and_each_gets_the_result() -> None:
    pending, results = PendingSend(), []

    async def wait() -> None:
        results.append(await pending)

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert not pending.is_done
            with pytest.raises(trio.WouldBlock):
                pending.result()
            pending.succeed(RESULT)
    assert results == [RESULT] * 3
    assert pending.is_done
    assert await pending is pending.result() is RESULT


async def test_a_failure_is_raised_by_each_wait(caplog: pytest.LogCaptureFixture) -> None:
    pending = PendingSend()
    pending.fail(RemotingTimeoutError("late"), "T")
    for _ in range(2):
        with pytest.raises(RemotingTimeoutError, match="late"):
            await pending
    del pending
    assert caplog.records == []


async def test_a_failure_that_nothing_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    pending = PendingSend()
    pending.fail(RemotingTimeoutError("late"), "T")
    del pending
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "a message to topic T was not sent, and nothing waited for it: late"


async def test_cancelled_waiting_leaves_the_send_alone() -> None:
    pending = PendingSend()
    assert (await cancelled_at(1, pending.wait)).was_cancelled
    pending.succeed(RESULT)
    assert await pending is RESULT


async def test_a_known_result_costs_no_round_of_the_event_loop_but_can_be_cancelled() -> None:
    """Thousands of results are awaited after each other; a round for each would cost as much as the sends."""
    pending = PendingSend()
    pending.succeed(RESULT)
    has_run = False

    async def note() -> None:
        nonlocal has_run
        has_run = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note)
        for _ in range(100):
            await pending
        assert not has_run
    with trio.CancelScope() as scope:
        scope.cancel()
        await pending
    assert scope.cancelled_caught
