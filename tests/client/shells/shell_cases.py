"""A role with a member of each kind, opened by the shells in place of a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rocketpy.client.begun import Done, begun_by
from rocketpy.client.callers import hands_over, told_caller
from rocketpy.client.client import Client
from rocketpy.client.consumer.message_stream import MessageStream, open_message_stream
from tests.client.consumer.test_message_stream import FIRST, TO_END, Source

Handler = Callable[[str], Awaitable[str]]


class Later:
    """A call that was begun, and ends by a call of :meth:`finish`."""

    def __init__(self, number: int) -> None:
        self.is_done = False
        self.was_abandoned = False
        self._number = number
        self._function: Callable[[], object] | None = None

    def result(self) -> int:
        if self._number > 100:
            raise ZeroDivisionError("after")
        return self._number

    def on_done(self, function: Callable[[], object]) -> None:
        self._function = function

    def abandon(self) -> None:
        self.was_abandoned = True
        self._function = None

    def finish(self) -> None:
        self.is_done = True
        assert self._function is not None
        self._function()


class Role:
    """Every kind of member. Its module says that it belongs to the client."""

    __module__ = "rocketpy.client.role"

    def __init__(self) -> None:
        self.events: list[object] = []
        self.numbers = iter((1, 2, 3))
        self.begun: list[Later] = []
        self.level = 0

    async def double(self, number: int, *, more: int = 0) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number + more

    async def read_level(self) -> int:
        return self.level

    @hands_over
    async def take(self) -> int:
        """Return the next number, and count it as received."""
        await trio.lowlevel.checkpoint()
        self.level += 1
        return self.level

    async def fail(self) -> None:
        raise ZeroDivisionError("planted")

    def _begin_later(self, number: int = 0, *, add: int = 0) -> Later | Done | None:
        if number < 0:
            raise ZeroDivisionError("before")
        if number < 10:
            return Done(number + add) if number else None
        self.begun.append(Later(number + add))
        return self.begun[-1]

    @begun_by(_begin_later)
    async def later(self, number: int = 0, *, add: int = 0) -> str:
        """A call that is begun without a task, unless its number is 0."""
        await trio.lowlevel.checkpoint()
        return "in a task"

    async def _who_for(self, caller: object) -> object:
        await trio.lowlevel.checkpoint()
        return caller

    @told_caller(_who_for)
    async def who(self) -> object:
        """Return the caller."""
        return trio.lowlevel.current_task()

    @asynccontextmanager
    async def messages(self, count: int) -> AsyncIterator[MessageStream]:
        """A stream of a queue; :attr:`committed` are the offsets."""
        source = Source(FIRST)
        self.commits = source.committed
        source.put(FIRST, *[b"%d" % number for number in range(count)])
        async with open_message_stream(source, TO_END, source.watch) as stream:
            yield stream

    def finish(self) -> None:
        """End what was begun first."""
        self.begun.pop(0).finish()

    async def hang(self) -> None:
        self.events.append("begun")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            self.events.append("ended")

    async def hang_in_nursery(self, *, fails: bool = False) -> None:
        """Hang in a task of a nursery, which groups its cancellation with the failure of another one."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.hang)
            try:
                await trio.sleep_forever()
            finally:
                if fails:
                    raise ZeroDivisionError("while it was cancelled")

    async def run(self, handler: Handler, count: int = 1) -> list[str]:
        try:
            return [await handler(f"call {number}") for number in range(count)]
        except Exception as failure:
            self.events.append(failure)
            raise

    async def run_at_once(self, handler: Handler, count: int) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(handler, f"call {number}")

    async def same(self, other: object) -> bool:
        return other is self

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Role]:
        self.events.append(f"open {name}")
        inner = Role()
        try:
            yield inner
        except ZeroDivisionError:
            self.events.append("failed")
            raise
        finally:
            self.events.append(f"close {name}")

    @asynccontextmanager
    async def closing(self, word: str, path: Path) -> AsyncIterator[Role]:
        """At the end of the block, and not when it is cancelled, a file says so."""
        yield Role()
        await trio.sleep(0.01)
        await trio.Path(path).write_text(word)

    @asynccontextmanager
    async def broken(self) -> AsyncIterator[Role]:
        """A role whose service fails while it is open."""
        async with trio.open_nursery() as nursery:
            inner = Role()

            async def fail() -> None:
                while "begun" not in inner.events:
                    await trio.sleep(0.001)
                raise ZeroDivisionError("of a service")

            nursery.start_soon(fail)
            yield inner

    async def count(self, end: int) -> AsyncIterator[int]:
        try:
            for number in range(end):
                await trio.lowlevel.checkpoint()
                yield number
        finally:
            self.events.append("counted")

    def soon(self) -> Pending:
        return Pending()

    def plain(self) -> float:
        return trio.current_time()

    @property
    def committed(self) -> list[int]:
        return [offset for _, offset in self.commits]

    @property
    def name(self) -> str:
        return "role"

    def __aiter__(self) -> Role:
        return self

    async def __anext__(self) -> int:
        await trio.lowlevel.checkpoint()
        number = next(self.numbers, None)
        if number is None:
            raise StopAsyncIteration
        return number


class Pending:
    """Something to await."""

    __module__ = "rocketpy.client.role"

    def __await__(self):  # type: ignore[no-untyped-def]
        return trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105 - what an await does


@asynccontextmanager
async def role(self: Client) -> AsyncIterator[Role]:
    yield Role()
