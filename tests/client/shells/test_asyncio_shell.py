"""Shells for asyncio: every kind of member, exceptions, cancellation, handlers, several clients."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from rocketpy.client import aio
from rocketpy.client.client import Client
from rocketpy.client.config import ClientConfig
from rocketpy.client.shells.asyncio_shell import HandlerCancelledError
from rocketpy.errors import ClientError, LocalProtocolError
from tests.client.shells.shell_cases import role
from tests.patience import PATIENCE_SECONDS
from tests.processes import in_child

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "role", role, raising=False)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


@asynccontextmanager
async def opened() -> AsyncIterator[Any]:
    async with aio.open_client(NOWHERE) as client, client.role() as opened:  # type: ignore[attr-defined]
        yield opened


def in_asyncio(test: Callable[[Any], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in a loop of asyncio, with a role of a client."""

    async def main() -> None:
        async with opened() as role:
            await test(role)

    return lambda: run(main())


@in_asyncio
async def test_each_kind_of_member_is_made_for_asyncio(role: Any) -> None:
    assert await role.double(4, more=1) == 9
    assert role.name == "role"
    assert role.plain() > 0
    assert [each async for each in role] == [1, 2, 3]
    assert [each async for each in role.count(3)] == [0, 1, 2]
    async with aclosing(role.count(3)) as numbers:
        assert await anext(numbers) == 0
    assert role.events == ["counted"] * 2, "an iterator that is left early is closed, too"
    await role.soon()
    async with role.opened("x") as inner:
        assert await inner.double(1) == 2
    assert role.events[2:] == ["open x", "close x"]
    assert await role.same(role)
    assert "double" in dir(role)
    assert not hasattr(role, "nothing")


@in_asyncio
async def test_what_a_program_sets_is_set_in_the_object(role: Any) -> None:
    role.level = 3
    assert role.level == 3
    assert await role.read_level() == 3
    assert role
    for name in ("nothing", "double"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}' to set"):
            setattr(role, name, 1)


def test_exceptions_of_calls_and_blocks_are_the_same_objects() -> None:
    async def main() -> None:
        async with opened() as role:
            with pytest.raises(ZeroDivisionError, match="planted"):
                await role.fail()
            mine = ZeroDivisionError("mine")
            with pytest.raises(ZeroDivisionError) as caught:
                async with role.opened("x"):
                    raise mine
            assert caught.value is mine
            assert role.events == ["open x", "failed", "close x"]
            with pytest.raises(StopIteration):
                async with role.opened("y"):
                    raise StopIteration
        with pytest.raises(ClientError, match="No name server"):
            async with aio.open_client(""):
                pass

    run(main())


@in_asyncio
async def test_a_cancelled_task_goes_on_when_its_call_has_ended(role: Any) -> None:
    task = asyncio.ensure_future(role.hang())
    while not role.events:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert role.events == ["begun", "ended"]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            expiring = asyncio.ensure_future(expire(limit, role))
            await role.hang()
    await expiring
    assert role.events == ["begun", "ended"] * 2
    assert await role.double(1) == 2


async def expire(limit: asyncio.Timeout, role: Any) -> None:
    """Let a limit pass when the second call has begun, and not before."""
    while role.events.count("begun") < 2:
        await asyncio.sleep(0.001)
    limit.reschedule(asyncio.get_running_loop().time())


@in_asyncio
async def test_a_call_that_is_cancelled_twice_is_still_waited_for(role: Any) -> None:
    task = asyncio.ensure_future(role.hang())
    while not role.events:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert role.events == ["begun", "ended"]


def test_a_cancelled_block_is_left_in_order() -> None:
    seen: list[object] = []

    async def main() -> None:
        async def block() -> None:
            async with opened() as role, role.opened("x"):
                seen.append(role.events)
                await asyncio.sleep(PATIENCE_SECONDS)

        task = asyncio.ensure_future(block())
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert seen == [["open x", "close x"]]


def test_use_after_the_end_is_a_clear_error() -> None:
    async def main() -> None:
        async with opened() as role:
            async with role.opened("x") as inner:
                hanging = asyncio.ensure_future(inner.hang())
                while not inner.events:
                    await asyncio.sleep(0.001)
            with pytest.raises(LocalProtocolError, match="was closed while the call was in progress"):
                await hanging
            for use in (inner.double, lambda _: inner.opened("z").__aenter__()):
                with pytest.raises(LocalProtocolError, match="the client is closed"):
                    await use(1)
            with pytest.raises(LocalProtocolError, match="the client is closed"):
                inner.plain()
        with pytest.raises(LocalProtocolError, match="the client is closed"):
            await role.double(1)

    run(main())


@in_asyncio
async def test_a_call_with_a_nursery_of_its_own_ends_as_others_do(role: Any) -> None:
    for fails in (False, True):
        async with role.opened("x") as inner:
            hanging = asyncio.ensure_future(inner.hang_in_nursery(fails=fails))
            await until(lambda: inner.events)
        # Not raised here: a cancellation of Trio would end with the block of the client.
        (raised,) = await asyncio.gather(hanging, return_exceptions=True)
        if fails:
            assert isinstance(raised, ExceptionGroup)
            assert [str(each) for each in raised.exceptions] == ["while it was cancelled"]
        else:
            assert isinstance(raised, LocalProtocolError)
            assert "was closed while the call was in progress" in str(raised)
    assert await role.double(1) == 2


@in_asyncio
async def test_a_role_that_fails_ends_calls_and_raises_at_the_end_of_its_block(role: Any) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with role.broken() as inner:
            with pytest.raises(LocalProtocolError):
                await inner.hang()
    assert caught.group_contains(ZeroDivisionError, match="of a service")
    assert await role.double(1) == 2


def test_a_handler_runs_in_asyncio_and_is_cancelled_with_the_call() -> None:
    async def main() -> None:
        cancelled = []

        async def answer(call: str) -> str:
            await asyncio.sleep(0)
            return call.upper()

        async def fail(_: str) -> str:
            raise ZeroDivisionError("of a handler")

        async def hang(_: str) -> str:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE_SECONDS)
            finally:
                cancelled.append(True)
            return ""

        async with opened() as role:
            assert await role.run(answer, count=2) == ["CALL 0", "CALL 1"]
            with pytest.raises(ZeroDivisionError, match="of a handler"):
                await role.run(fail)
            begun = asyncio.Event()
            task = asyncio.ensure_future(role.run(handler=hang))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert cancelled == [True]

    run(main())


@in_asyncio
async def test_a_cancellation_that_a_handler_picks_up_is_a_failure(role: Any) -> None:
    """A pool that is being closed, a shared future that was given up: nothing has cancelled the handler."""

    async def await_cancelled(_: str) -> str:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return str(await future)

    async def raise_group(call: str) -> str:
        raise BaseExceptionGroup("", [asyncio.CancelledError(), ValueError()])

    async def cancel_itself(_: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not cancelled"

    for handler in (await_cancelled, raise_group, cancel_itself):
        with pytest.raises(HandlerCancelledError):
            await role.run(handler)

    async def fail(_: str) -> str:
        raise ExceptionGroup("", [ValueError()])

    with pytest.raises(ExceptionGroup):
        await role.run(fail)


def test_the_end_of_all_tasks_is_no_failure_of_handlers() -> None:
    async def main() -> None:
        async def hang(_: str) -> str:
            begun.set()
            await asyncio.sleep(PATIENCE_SECONDS)
            return ""

        async with opened() as role:
            begun = asyncio.Event()
            before = asyncio.all_tasks()
            call = asyncio.ensure_future(role.run(hang))
            await begun.wait()
            (handler,) = asyncio.all_tasks() - before - {call}
            handler.cancel()
            await asyncio.wait([handler])
            call.cancel()  # in the same sweep over the tasks, or soon after it
            with pytest.raises(asyncio.CancelledError):
                await call
            assert role.events == [], "the handler has not failed"

    run(main())


@in_asyncio
async def test_a_handler_that_cannot_be_awaited_is_refused_before_it_is_called(role: Any) -> None:
    called: list[str] = []
    for handler in (called.append, lambda call: called.append(call)):
        with pytest.raises(TypeError, match="expected a coroutine function"):
            await role.run(handler)
    assert called == []


def test_several_clients_live_in_one_loop_and_leave_no_thread() -> None:
    async def main() -> None:
        async with opened() as one:
            async with opened() as two:
                assert await asyncio.gather(one.double(1), two.double(2)) == [2, 4]
            assert await one.double(3) == 6
        async with opened() as three:
            assert await three.double(4) == 8

    run(main())
    run(main())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any("rocketpy" in each.name for each in threading.enumerate()):
        assert time.monotonic() < deadline


@in_asyncio
async def test_a_client_belongs_to_its_loop(role: Any) -> None:

    def other() -> None:
        with pytest.raises(LocalProtocolError, match="belongs to another event loop"):
            asyncio.run(role.double(1))

    await asyncio.to_thread(other)


@in_asyncio
async def test_another_task_does_not_commit_the_message_that_a_task_has_in_its_hands(role: Any) -> None:
    """Both calls run in the same task of Trio, or each in one of its own: that says nothing."""
    async with role.messages(5) as messages:
        await anext(messages)
        await anext(messages)
        await asyncio.create_task(commit(messages))
        assert role.committed == [1]
        hanging = [asyncio.create_task(role.opened(str(number)).__aenter__()) for number in range(3)]
        await asyncio.gather(*hanging)  # other tasks of Trio are kept for calls now
        await asyncio.gather(messages.commit(), role.double(1))
        assert role.committed == [1, 2], "the caller is whoever calls"
        await asyncio.wait_for(anext(messages), PATIENCE_SECONDS)
        await asyncio.create_task(commit(messages))
        await messages.commit(with_last=False)
        assert role.committed == [1, 2]
        await messages.commit()
        assert role.committed == [1, 2, 3]


async def commit(messages: Any) -> None:
    await messages.commit()


@in_asyncio
async def test_a_method_is_told_the_task_that_calls(role: Any) -> None:
    assert await role.who() is asyncio.current_task()
    assert await asyncio.wait_for(role.who(), PATIENCE_SECONDS) is asyncio.current_task()


@in_asyncio
async def test_a_call_that_is_begun_without_a_task_ends_as_others_do(role: Any) -> None:
    assert await role.later() == "in a task"
    assert await role.later(3, add=4) == 7
    with pytest.raises(ZeroDivisionError, match="before"):
        await role.later(-1)
    for number in (20, 30):
        task = asyncio.ensure_future(role.later(number))
        await until(lambda: role.begun)
        role.finish()
        assert await task == number
    task = asyncio.ensure_future(role.later(200))
    await until(lambda: role.begun)
    role.finish()
    with pytest.raises(ZeroDivisionError, match="after"):
        await task


@in_asyncio
async def test_a_begun_call_is_abandoned_by_a_cancellation_and_by_the_end_of_its_block(role: Any) -> None:
    task = asyncio.ensure_future(role.later(20))
    await until(lambda: role.begun)
    (begun,) = role.begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert begun.was_abandoned
    async with role.opened("x") as inner:
        task = asyncio.ensure_future(inner.later(20))
        await until(lambda: inner.begun)
    with pytest.raises(LocalProtocolError, match="was closed while the call was in progress"):
        await task
    assert inner.begun[0].was_abandoned  # a value, which is read after the end


ROUNDS = range(20)
"""Rounds of the loop after which a call is cancelled: one of them is that in which it has ended, unseen."""


async def cancelled_after(rounds: int, call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a call, None if it was cancelled."""
    task = asyncio.ensure_future(call)
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return None if task.cancelled() else task.result()


@in_asyncio
async def test_what_is_handed_over_to_a_call_that_is_cancelled_is_there_for_the_next(role: Any) -> None:
    found = [await cancelled_after(rounds, role.take()) for rounds in ROUNDS]
    seen = [each for each in found if each is not None] + [await role.take()]
    assert seen == list(range(1, role.level + 1))
    assert None in found


@in_asyncio
async def test_a_message_that_a_cancelled_task_has_not_seen_is_not_committed(role: Any) -> None:
    async def take(messages: Any) -> int:
        return int((await anext(messages)).body)

    for rounds in ROUNDS:
        async with role.messages(4) as messages:
            first = await cancelled_after(rounds, take(messages))
            await messages.commit()
            assert role.committed == []
            rest = [int(each.body) async for each in messages]
        assert ([] if first is None else [first]) + rest == [0, 1, 2, 3]


@in_asyncio
async def test_a_block_whose_opening_is_cancelled_is_not_open(role: Any) -> None:
    for rounds in ROUNDS:
        if await cancelled_after(rounds, role.opened("x").__aenter__()) is None:
            assert role.events.count("open x") == role.events.count("close x")
        role.events.clear()


def test_a_loop_that_stops_and_goes_on_leaves_generators_of_trio_to_trio() -> None:
    """The loop sets the hooks of generators each time: its end would close those of the client, in the wrong task."""
    seen: list[object] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: seen.append(context))
    client = loop.run_until_complete(aio.open_client(NOWHERE).__aenter__())
    role = loop.run_until_complete(client.role().__aenter__())  # type: ignore[attr-defined]
    loop.run_until_complete(role.messages(1).__aenter__())
    loop.run_until_complete(role.opened("x").__aenter__())
    with pytest.warns(ResourceWarning):
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), PATIENCE_SECONDS))
    loop.close()
    assert role.events == ["open x", "close x"]
    assert seen == []


def test_clients_come_and_go_in_many_tasks_and_each_works() -> None:
    async def come_and_go(number: int) -> None:
        for _ in range(10):
            async with opened() as role:
                assert await role.double(number) == 2 * number

    async def main() -> None:
        await asyncio.gather(*map(come_and_go, range(20)))

    run(main())


def test_a_client_that_is_left_open_is_closed_with_its_loop_in_order() -> None:
    async def main() -> Any:
        client = aio.open_client(NOWHERE, config=ClientConfig(unit_name="secret"))
        role = await (await client.__aenter__()).role().__aenter__()
        await role.opened("x").__aenter__()
        return client, role.events

    name = re.escape("rocketpy.client.aio.open_client('127.0.0.1:1') was still open")
    with pytest.warns(ResourceWarning, match=name):
        client, events = run(main())
    assert events == ["open x", "close x"]
    assert not run(client.__aexit__(None, None, None)), "leaving the block late does nothing"


def test_a_handler_of_a_loop_that_was_closed_ends_with_its_client() -> None:
    loop = asyncio.new_event_loop()

    async def hang(_: str) -> str:
        handling.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def begin() -> None:
        kept.append(opened())
        role = await kept[0].__aenter__()
        kept.append(asyncio.ensure_future(role.run(hang)))
        await handling.wait()

    kept: list[Any] = []
    handling = asyncio.Event()
    loop.run_until_complete(begin())
    loop.close()

    async def main() -> None:
        async with opened() as role:
            assert await role.double(1) == 2

    with pytest.warns(ResourceWarning, match="when its event loop was closed"):
        run(main())


def test_a_child_has_clients_of_its_own() -> None:
    async def main() -> None:
        async with opened() as role:
            assert await role.double(1) == 2
            assert in_child(lambda: run(other())) == "4"
            assert "LocalProtocolError: the client was opened in another" in in_child(lambda: run(role.double(1)))
            assert await role.double(2) == 4

    async def other() -> int:
        async with opened() as role:
            return int(await role.double(2))

    run(main())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)
