"""The client in an asyncio program: the same calls, awaited by asyncio.

::

    async with aio.open_client("127.0.0.1:9876") as client:
        async with client.producer("g") as producer:
            await producer.send(Message("T", b"hello"))

Everything that :mod:`rocketpy.client` opens is here, with the same names, parameters, results and errors; type checkers
see the same classes. A coroutine function that is handed over (a handler of messages) runs in asyncio. A cancelled task
leaves nothing behind: its call has ended when the cancellation is raised. A client belongs to the event loop that has
opened it.

Trio runs in the same thread, as a guest of asyncio (:mod:`rocketpy.client.shells.guest_host`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

import trio

from rocketpy.client import client as trio_client
from rocketpy.client.shells.guest_host import GuestHost
from rocketpy.client.shells.members import HeldScope, Kind, has_waiting_members, is_own, kind_of

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["open_admin_client", "open_client", "open_producer", "open_pull_consumer"]


def _opener(function: Callable[P, AbstractAsyncContextManager[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Return an opener of the client for asyncio programs."""

    @functools.wraps(function)
    def opening(*arguments: P.args, **named: P.kwargs) -> AbstractAsyncContextManager[T]:
        opened = _OpenedClient(functools.partial(function, *arguments, **named))
        return cast(AbstractAsyncContextManager[T], opened)

    return opening


class _Opened:
    """An async context manager of the client, for asyncio."""

    def __init__(
        self, host: GuestHost, open_scope: Callable[[], AbstractAsyncContextManager[object]], within: HeldScope | None
    ) -> None:
        self._host = host
        self._held = HeldScope(open_scope)
        self._within = within

    async def __aenter__(self) -> object:
        tasks = self._host.tasks if self._within is None else self._within.calls
        value = await self._host.call(self._held.enter, tasks)
        return _shelled(value, self._host, self._held)

    async def __aexit__(
        self, _: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            await self._host.call(self._held.leave, failure)
        except BaseException as raised:
            if is_own(raised, failure):
                return False
            raise
        return failure is not None


class _OpenedClient:
    """A whole client: with the Trio run that it needs."""

    def __init__(self, open_scope: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._open_scope = open_scope
        self._opened: _Opened | None = None
        self._host: GuestHost | None = None

    async def __aenter__(self) -> object:
        self._host = await GuestHost.acquire()
        try:
            self._opened = _Opened(self._host, self._open_scope, None)
            return await self._opened.__aenter__()
        except BaseException:
            await self._host.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._opened is not None
        assert self._host is not None
        try:
            return await self._opened.__aexit__(kind, failure, traceback)
        finally:
            await self._host.release()


class AioShell:
    """An object of the client, its members that wait made for asyncio; all others are the object's own."""

    def __init__(self, target: Any, host: GuestHost, held: HeldScope) -> None:
        self._target = target
        self._host = host
        self._held = held
        self._opened: _Opened | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self._target).__name__!r} object has no public attribute {name!r}", name=name)
        kind = kind_of(self._target.__class__, name)
        member = getattr(self._target, name)
        if kind is Kind.VALUE:
            return _shelled(member, self._host, self._held)
        made = _MAKERS[kind](self, member)
        self.__dict__[name] = made  # found without __getattr__ from now on
        return made

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<asyncio shell of {self._target!r}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        if getattr(self._target, "is_done", False):  # the result of a send that has ended needs no task
            return self._target.result()
        return (yield from self._call(_awaited, self._target).__await__())

    def __aiter__(self) -> Any:
        iterator = self._target.__aiter__()
        return self if iterator is self._target else _shelled(iterator, self._host, self._held)

    async def __anext__(self) -> Any:
        return await self._call(self._target.__anext__)

    async def __aenter__(self) -> Any:
        self._opened = _Opened(self._host, lambda: self._target, self._held)
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._opened is not None
        return await self._opened.__aexit__(kind, failure, traceback)

    def __iter__(self) -> Any:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    async def _call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        result = await self._host.call(function, *arguments, tasks=self._held.calls)
        return _shelled(result, self._host, self._held)

    def _handed(self, value: Any) -> Any:
        """Return an argument as the client takes it: without its shell, a coroutine function as one of Trio's."""
        if isinstance(value, AioShell):
            return value._target
        if callable(value) and _is_async(value):
            return _Handler(value, self._host, self._held)
        return value


class _Handler:
    """A coroutine function of asyncio, to be called from a task of Trio."""

    def __init__(self, function: Callable[..., Awaitable[Any]], host: GuestHost, held: HeldScope) -> None:
        self._function = function
        self._host = host
        self._held = held

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        shelled = [_shelled(each, self._host, self._held) for each in arguments]
        task = asyncio.ensure_future(self._function(*shelled, **named), loop=self._host.loop)
        ended = trio.Event()
        task.add_done_callback(lambda _: ended.set())
        try:
            await ended.wait()
        except trio.Cancelled:
            task.cancel()
            with trio.CancelScope(shield=True):  # a handler that takes a cancellation amiss holds up its own program
                await ended.wait()
            if not task.cancelled():
                task.exception()  # seen: the cancellation counts
            raise
        return task.result()


def _call_member(shell: AioShell, member: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    call_in_trio, held, handed = shell._host.call, shell._held, shell._handed

    @functools.wraps(member)
    async def call(*arguments: Any, **named: Any) -> Any:
        function = (
            functools.partial(member, **{name: handed(each) for name, each in named.items()}) if named else member
        )
        result = await call_in_trio(function, *map(handed, arguments), tasks=held.calls)
        return AioShell(result, shell._host, held) if has_waiting_members(result.__class__) else result

    return call


def _open_member(shell: AioShell, member: Callable[..., Any]) -> Callable[..., _Opened]:
    @functools.wraps(member)
    def opening(*arguments: Any, **named: Any) -> _Opened:
        given = [shell._handed(each) for each in arguments]
        given_named = {name: shell._handed(each) for name, each in named.items()}
        return _Opened(shell._host, functools.partial(member, *given, **given_named), shell._held)

    return opening


def _iterate_member(shell: AioShell, member: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(member)
    async def iterate(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
        given = [shell._handed(each) for each in arguments]
        iterator = member(*given, **{name: shell._handed(each) for name, each in named.items()})
        try:
            while True:
                try:
                    yield await shell._call(iterator.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            await shell._call(iterator.aclose)

    return iterate


def _plain_member(shell: AioShell, member: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(*arguments: Any, **named: Any) -> Any:
        _ = shell._held.calls  # LocalProtocolError once the block has ended
        given = [shell._handed(each) for each in arguments]
        result = member(*given, **{name: shell._handed(each) for name, each in named.items()})
        if isinstance(result, AbstractAsyncContextManager):
            return _Opened(shell._host, lambda: result, shell._held)
        return _shelled(result, shell._host, shell._held)

    return call


_MAKERS: dict[Kind, Callable[[AioShell, Callable[..., Any]], Any]] = {
    Kind.CALL: _call_member,
    Kind.OPEN: _open_member,
    Kind.ITERATE: _iterate_member,
    Kind.PLAIN: _plain_member,
}


def _shelled(value: Any, host: GuestHost, held: HeldScope) -> Any:
    return AioShell(value, host, held) if has_waiting_members(value.__class__) else value


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _awaited(target: Awaitable[Any]) -> Any:
    return await target


open_client = _opener(trio_client.open_client)
open_producer = _opener(trio_client.open_producer)
open_pull_consumer = _opener(trio_client.open_pull_consumer)
open_admin_client = _opener(trio_client.open_admin_client)


def __getattr__(name: str) -> Any:
    """Return an opener of the client that has no line above."""
    function = getattr(trio_client, name, None) if name.startswith("open_") else None
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return _opener(function)
