"""Objects of the client for asyncio: Trio runs in the same thread, as a guest (:mod:`.guest_host`)."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

import trio

from rocketpy.client.begun import beginning_of
from rocketpy.client.callers import Taking, form_for_caller, is_handed_over, taking_of
from rocketpy.client.shells.guest_host import GuestHost
from rocketpy.client.shells.held_scope import HeldScope, is_own
from rocketpy.client.shells.shell import OpenScope, Shell, begin_like, in_shell
from rocketpy.client.validators import check_async, is_async
from rocketpy.errors import single_failures

FOLLOWING_SECONDS = 0.5
"""How long the cancellation of the call may come after that of its handler, where a loop cancels all of its tasks."""


class AsyncioShell(Shell[GuestHost]):
    """An object of the client, its members that wait made for asyncio; all others are the object's own."""

    _word = "asyncio"
    _module = "rocketpy.client.aio"

    @functools.cached_property
    def _next(self) -> Callable[[], Any]:
        return self._call_member(self._target.__anext__)

    def __await__(self) -> Generator[Any, Any, Any]:
        if getattr(self._target, "is_done", False):  # the result of a send that has ended
            return self._target.result()
        return (yield from self._awaited().__await__())

    def __aiter__(self) -> Any:
        iterator = self._target.__aiter__()
        return self if iterator is self._target else self._shelled(iterator)

    def __anext__(self) -> Any:
        return self._next()

    async def __aenter__(self) -> Any:
        self._opened = self._open(lambda: self._target)
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(await self._opened.__aexit__(kind, failure, traceback))

    def __iter__(self) -> Any:
        return iter(self._target)

    async def _call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return self._shelled(await self._loop.call(function, *arguments, tasks=self._held.calls))

    async def _awaited(self) -> Any:
        wait = getattr(self._target, "wait", None)  # it may have a form that takes no task
        if wait is None:
            return await self._call(_awaited, self._target)
        result = await self._loop.call(wait, tasks=self._held.calls, begin=beginning_of(wait))
        return self._shelled(result)

    def _handed(self, member: Callable[..., Any], parameter: int | str, value: Any) -> Any:
        handed = super()._handed(member, parameter, value)
        return self._handler(value) if handed is value and callable(value) and is_async(value) else handed

    # ---- what this kind of program says ---------------------------------------------------------------------------

    def _value_of(self, name: str) -> Any:
        return self._shelled(getattr(self._target, name))

    def _set_value(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def _call_member(self, member: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        if (taking := taking_of(member)) is not None:
            return self._take_member(taking)
        call_in_trio, held = self._loop.call, self._held
        for_caller = form_for_caller(member)
        begin = beginning_of(for_caller or member)
        lost: deque[Any] = deque()
        keep = lost.append if is_handed_over(member) else None

        async def call(*arguments: Any, **named: Any) -> Any:
            if lost:
                return self._shelled(lost.popleft())
            function, given = self._bound(member, arguments, named)
            started = begin_like(begin, function)
            return self._shelled(await call_in_trio(function, *given, tasks=held.calls, begin=started, lost=keep))

        if for_caller is None:
            return call
        member = for_caller
        return _ByCaller(call)

    def _take_member(self, taking: Taking) -> Callable[[], Any]:
        call_in_trio, held = self._loop.call, self._held

        async def take(caller: object) -> Any:
            while True:
                calls = held.calls  # LocalProtocolError once the block has ended
                if (taken := taking.ready(caller)) is not None:
                    return taken
                await call_in_trio(taking.wait, tasks=calls)

        return _ByCaller(take)

    def _iterate_member(self, member: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        async def iterate(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
            function, given = self._bound(member, arguments, named)
            iterator = function(*given)
            try:
                while True:
                    try:
                        yield await self._call(iterator.__anext__)
                    except StopAsyncIteration:
                        return
            finally:
                await self._call(iterator.aclose)

        return iterate

    def _plain_member(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            _ = self._held.calls  # LocalProtocolError once the block has ended
            function, given = self._bound(member, arguments, named)
            return self._opened_or_shelled(function(*given))

        return call

    def _open(self, open_scope: OpenScope) -> AsyncioOpened:
        return AsyncioOpened(self._loop, open_scope, self._held)

    def _handler(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        check_async(function)
        return _Handler(function, self)


class AsyncioOpened:
    """An async context manager of the client, for asyncio."""

    def __init__(self, loop: GuestHost, open_scope: OpenScope, within: HeldScope | None) -> None:
        self._loop = loop
        self._held = HeldScope(open_scope)
        self._within = within

    async def __aenter__(self) -> Any:
        tasks = self._loop.tasks if self._within is None else self._within.calls
        try:
            value = await self._loop.call(self._held.enter, tasks)
        except asyncio.CancelledError:
            if self._held.is_entered:  # the cancellation came a moment later
                await self._loop.call(self._held.leave, None)
            raise
        return in_shell(AsyncioShell, value, self._loop, self._held)

    async def __aexit__(
        self, _: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not self._loop.is_of_this_process or self._loop.loop.is_closed():
            return False  # the block is the parent's, or ends with the run of a loop that was left
        try:
            with self._loop.leaving():
                await self._loop.call(self._held.leave, failure)
        except BaseException as raised:
            if is_own(raised, failure):
                return False
            raise
        return failure is not None

    async def close(self) -> None:
        """Leave the block, and those within it, in place of the program."""
        await self._loop.call(self._held.close)


class AsyncioClient:
    """A whole client: with the Trio run that it needs."""

    def __init__(self, open_scope: OpenScope, name: str) -> None:
        self._open_scope = open_scope
        self._name = name
        self._opened: AsyncioOpened | None = None
        self._host: GuestHost | None = None

    def __repr__(self) -> str:
        return self._name

    async def __aenter__(self) -> Any:
        host = await GuestHost.acquire(self)
        opened = AsyncioOpened(host, self._open_scope, None)
        try:
            value = await opened.__aenter__()
        except BaseException:
            await host.release(self)
            raise
        self._opened, self._host = opened, host
        return value

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        opened, host = self._opened, self._host
        assert opened is not None
        assert host is not None
        if host.has_closed(self):  # with its loop, after a warning
            return False
        try:
            return await opened.__aexit__(kind, failure, traceback)
        finally:
            await host.release(self)

    async def close(self) -> None:
        """Leave the block, and those within it, in place of the program."""
        assert self._opened is not None
        assert self._host is not None
        try:
            await self._opened.close()
        finally:
            await self._host.release(self)


class HandlerCancelledError(Exception):
    """A handler ended with a CancelledError of asyncio though its call goes on. A failure like any other."""


class _Handler:
    """A coroutine function of asyncio, to be called from a task of Trio."""

    def __init__(self, function: Callable[..., Awaitable[Any]], shell: AsyncioShell) -> None:
        self._function = function
        self._shell = shell

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        shelled = [self._shell._shelled(each) for each in arguments]
        task = asyncio.ensure_future(self._function(*shelled, **named), loop=self._shell._loop.loop)
        ended = trio.Event()
        task.add_done_callback(lambda _: ended.set())
        handlers = self._shell._loop.handlers
        handlers.add(ended)
        try:
            await ended.wait()
        except trio.Cancelled:
            if not ended.is_set():  # as it is when the loop has closed
                task.cancel()
            with trio.CancelScope(shield=True):  # a handler that takes a cancellation amiss holds up its own program
                await ended.wait()
            if task.done() and not task.cancelled():
                task.exception()  # seen: the cancellation counts
            raise
        finally:
            handlers.remove(ended)
        try:
            return task.result()
        except (asyncio.CancelledError, BaseExceptionGroup) as failure:
            if isinstance(failure, Exception) or not all(map(_is_contained, single_failures(failure))):
                raise
            if task.cancelling():  # all tasks of the loop perhaps, and the call of this handler soon
                await trio.sleep(FOLLOWING_SECONDS)
            raise HandlerCancelledError("it awaited something that was cancelled, or was cancelled alone") from failure


class _ByCaller(functools.partial[Awaitable[Any]]):
    """A coroutine function that gets the task which calls it, and not the one that awaits it, as first argument.

    They differ where ``asyncio.wait_for`` awaits (Python 3.11). A partial is a coroutine function to ``inspect``.
    """

    def __call__(self, /, *arguments: Any, **named: Any) -> Awaitable[Any]:
        return self.func(_current_task(), *arguments, **named)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: the coroutine is made for one that will
        return None


def _is_contained(failure: BaseException) -> bool:
    return isinstance(failure, Exception | asyncio.CancelledError)


async def _awaited(target: Awaitable[Any]) -> Any:
    return await target
