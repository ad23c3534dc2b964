"""Trio as a guest of asyncio: one run per loop, from the first client to the last."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest
import trio

from rocketpy.client.shells import guest_host
from rocketpy.client.shells.guest_host import GuestHost
from rocketpy.errors import LocalProtocolError
from rocketpy.forks import OTHER_PROCESS
from tests.client.shells.shell_cases import Later
from tests.patience import PATIENCE_SECONDS
from tests.processes import in_child


@attrs.define(eq=False)
class User:
    """A client that does nothing."""

    name: str = "a user"
    host: GuestHost | None = None

    def __repr__(self) -> str:
        return self.name

    async def __aenter__(self) -> GuestHost:
        self.host = await GuestHost.acquire(self)
        return self.host

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        assert self.host is not None
        await self.host.release(self)


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop without a runner."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def double(number: int) -> int:
    await trio.sleep(0.001)
    return 2 * number


async def use(name: str = "a user") -> None:
    async with User(name) as host:
        await host.call(trio.lowlevel.checkpoint)


async def leave_open(name: str = "a user") -> User:
    user = User(name)
    await user.__aenter__()
    return user


def test_a_release_that_is_cancelled_has_ended_the_run_all_the_same() -> None:
    async def main() -> None:
        user = await leave_open()
        task = asyncio.ensure_future(user.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await use()  # Trio would refuse a second run

    run(main())


@pytest.mark.parametrize("steps", range(20))
def test_a_user_that_comes_while_the_run_starts_or_ends_gets_one_and_one_that_gives_up_leaves_nothing(
    steps: int,
) -> None:
    async def main() -> None:
        for is_cancelled in (False, True):
            first = asyncio.ensure_future(use())
            for _ in range(steps):
                await asyncio.sleep(0)
            second, third = asyncio.ensure_future(use()), asyncio.ensure_future(use())
            for _ in range(steps):
                await asyncio.sleep(0)
            if is_cancelled:
                first.cancel()
                second.cancel()
            ends = await asyncio.gather(first, second, third, return_exceptions=True)
            assert all(end is None or (is_cancelled and isinstance(end, asyncio.CancelledError)) for end in ends)
            assert ends[2] is None
            await use()

    run(main())
    trio.run(trio.lowlevel.checkpoint)  # nothing runs any more


def test_many_tasks_come_and_go() -> None:
    async def come_and_go(number: int) -> None:
        for _ in range(20):
            try:
                async with asyncio.timeout(0 if number % 5 == 0 else None):
                    await use()
            except TimeoutError:
                pass

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(come_and_go(number))

    run(main())


def test_a_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_trio() -> None:
        with pytest.raises(LocalProtocolError, match="runs Trio already, expected"):
            run(use())

    trio.run(in_trio)
    run(use())

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(LocalProtocolError):
                await use()
        monkeypatch.undo()
        await use()

    monkeypatch.setattr(trio.lowlevel, "start_guest_run", fail)
    run(main())


def test_a_run_that_fails_while_it_starts_is_an_error_of_the_client_that_has_begun_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: trio.Nursery) -> None:
        raise ZeroDivisionError("planted")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        with pytest.raises(LocalProtocolError, match="did not start"):
            await use()
        monkeypatch.undo()
        await use()

    seen: list[Any] = []
    monkeypatch.setattr(guest_host, "CallTasks", fail)
    run(main())
    assert [str(each.exceptions[0]) for each in seen] == ["planted"]


def test_a_loop_that_ends_in_order_closes_what_is_open() -> None:
    async def main() -> User:
        return await leave_open("client one")

    with pytest.warns(ResourceWarning, match="client one was still open when its event loop ended"):
        user = run(main())
    assert user.host.has_closed(user)
    trio.run(trio.lowlevel.checkpoint)
    run(use())


def test_a_generator_that_is_shut_down_closes_its_client_itself() -> None:
    async def generate() -> AsyncIterator[None]:
        async with User():
            yield

    async def main() -> None:
        generator = generate()
        await anext(generator)
        generators.append(generator)

    generators: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main())


@pytest.mark.parametrize("steps", [0, 1, 2, 5, None])
def test_the_run_of_a_loop_that_was_left_and_closed_is_ended_by_the_next_client(
    loop: asyncio.AbstractEventLoop, steps: int | None
) -> None:
    """However far it has come: in its start, or with a call under way that nothing but a deadline would end."""

    async def hang() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1000, shield=True):
                await trio.sleep_forever()
            ended.append(True)

    async def begin() -> None:
        begun.append(asyncio.ensure_future(leave_open("client one")))
        if steps is None:
            user = await begun[0]
            begun.append(asyncio.ensure_future(user.host.call(hang)))
            await asyncio.sleep(0)
        else:
            for _ in range(steps):
                await asyncio.sleep(0)

    begun: list[Any] = []
    ended: list[bool] = []
    loop.run_until_complete(begin())
    with pytest.raises(LocalProtocolError, match="client one open in another event loop, expected that to be closed"):
        run(use())
    loop.close()
    with pytest.warns(ResourceWarning, match="client one was still open when its event loop was closed"):
        run(use())
    assert ended == [True] * (steps is None)
    run(use())


def test_the_end_of_a_dead_run_waits_for_a_thread(loop: asyncio.AbstractEventLoop) -> None:
    async def work() -> None:
        await trio.to_thread.run_sync(may_end.wait)
        ended.append(True)

    async def begin() -> None:
        user = await leave_open()
        begun.append(asyncio.ensure_future(user.host.call(work)))  # type: ignore[union-attr]
        await asyncio.sleep(0.01)

    begun: list[object] = []
    ended: list[bool] = []
    may_end = threading.Event()
    loop.run_until_complete(begin())
    loop.close()
    threading.Timer(0.05, may_end.set).start()
    with pytest.warns(ResourceWarning):
        run(use())
    assert ended == [True]


def test_a_run_that_was_forked_is_the_parents() -> None:
    async def main() -> None:
        user = await leave_open()
        assert user.host is not None
        assert await user.host.call(double, 1) == 2
        host = user.host
        assert in_child(lambda: drive(host.call(double, 1))) == f"LocalProtocolError: {OTHER_PROCESS}"
        assert in_child(lambda: run(use()) or "used") == "used"
        assert await host.call(double, 2) == 4
        await user.close()

    run(main())


def drive(coroutine: Any) -> None:
    """Run a coroutine that does not wait."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_call_that_has_ended_is_forgotten() -> None:
    async def main() -> None:
        async with User() as host:
            for is_cancelled in (False, True):
                begun = Later(20)
                task = asyncio.ensure_future(host.call(trio.lowlevel.checkpoint, begin=lambda each=begun: each))
                await asyncio.sleep(0)
                assert len(host.tasks.begun) == 1
                if is_cancelled:
                    task.cancel()
                else:
                    begun.finish()
                await asyncio.wait([task])
                assert task.cancelled() is begun.was_abandoned is is_cancelled
                assert not host.tasks.begun

    run(main())
