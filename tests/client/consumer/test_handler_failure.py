"""What a handler may raise, and what becomes of it in each style."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import outcome
import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.direct_consumption import DirectConsumption
from rocketpy.client.consumer.handler_failure import contain_handler_failure
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.client.consumer.consumption import Concurrent, Orderly

QUEUE = MessageQueue("T", "b", 0)


async def foreign_cancellation() -> BaseException:
    """Return the cancellation of a scope that the program has left."""
    with trio.CancelScope() as scope:
        scope.cancel()
        result = await outcome.acapture(trio.sleep_forever)
    assert isinstance(result, outcome.Error)
    return result.error


async def failures() -> list[BaseException]:
    """Return what counts as a failure of a handler that nothing has cancelled."""
    cancelled = await foreign_cancellation()
    return [
        AssertionError("of the program"),
        ExceptionGroup("", [ValueError(), KeyError()]),
        cancelled,
        BaseExceptionGroup("", [cancelled, ValueError()]),
    ]


async def test_a_failure_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    for failure in await failures():
        caplog.clear()
        contain_handler_failure(failure, QUEUE, 3)
        (record,) = caplog.records
        assert "its 3 messages are redelivered" in record.getMessage()
        assert record.exc_info is not None
        assert record.exc_info[1] is failure


@pytest.mark.parametrize("fatal", [KeyboardInterrupt(), SystemExit(1), BaseExceptionGroup("", [SystemExit(1)])])
async def test_what_ends_programs_passes(fatal: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(fatal)) as caught:
        contain_handler_failure(fatal, QUEUE, 1)
    assert caught.value is fatal
    assert not caplog.records


async def test_a_cancellation_of_the_handler_passes_and_what_came_with_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_when_cancelled)
                await trio.sleep_forever()
        except BaseException as failure:
            contain_handler_failure(failure, QUEUE, 1)
            raise AssertionError from failure
    assert scope.cancelled_caught
    (record,) = caplog.records
    assert isinstance(record.exc_info[1].exceptions[0], ZeroDivisionError)  # type: ignore[index,union-attr]


def raising(raised: list[BaseException]) -> Callable[[MessageBatch], Awaitable[None]]:
    async def handler(batch: MessageBatch) -> None:
        if raised:
            raise raised.pop()

    return handler


async def test_each_failure_ends_only_its_call_in_each_style(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    raised = await failures()
    count = len(raised)
    concurrent = Concurrent(nursery)
    concurrent.deliver(*range(count + 1))
    await concurrent.run(raising(raised))
    assert concurrent.send_back.sent == [(each, 0) for each in range(count)]
    assert concurrent.committed == count + 1

    orderly = Orderly(*await failures(), suspend_current_queue_time_millis=10)
    orderly.deliver(0)
    await orderly.run(1)
    assert orderly.handled == [[0]] * (count + 1)
    assert orderly.committed == 1

    direct = DirectConsumption("%RETRY%g", is_orderly=False, handler=raising(raised := await failures()))
    while raised:
        found = await direct.consume(MessageExt("T", b"x", broker_name="b"))
        assert found.consume_result == "CR_THROW_EXCEPTION"


async def test_a_handler_that_fails_at_its_time_limit_ends_only_its_call(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its nursery groups the failure with the cancellation, of which the limit takes only its own."""
    world = Concurrent(nursery, consume_timeout=0.01)

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    async def handler(batch: MessageBatch) -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(fail_when_cancelled)
            await trio.sleep_forever()

    world.deliver(0)
    await world.run(handler, seconds=2)
    assert world.send_back.sent == [(0, 3)]
    assert "took too long" in caplog.text
