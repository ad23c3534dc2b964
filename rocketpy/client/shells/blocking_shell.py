"""Objects of the client for plain code: Trio runs in a thread of its own (:mod:`.loop_thread`)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import trio

from rocketpy.client.begun import Done, beginning_of
from rocketpy.client.shells.held_scope import HeldScope, is_own
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.client.shells.shell import OpenScope, Shell, begin_like, in_shell

THREAD_NAME = "rocketpy-client"


class BlockingShell(Shell[LoopThread]):
    """An object of the client, each of its members made for plain code."""

    _word = "blocking"
    _module = "rocketpy.client.blocking"

    def __iter__(self) -> Any:
        if hasattr(self._target, "__aiter__"):
            iterator = self._target.__aiter__()
            return self if iterator is self._target else self._shelled(iterator)
        return iter(self._target)

    def __next__(self) -> Any:
        try:
            return self._call(self._target.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Any:
        self._opened = self._open(lambda: self._target)
        return self._opened.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(self._opened.__exit__(kind, failure, traceback))

    def _call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return self._shelled(self._loop.call(function, *arguments, tasks=self._held.calls))

    def _is_known(self, member: Callable[..., Any]) -> bool:
        """Whether the result that is waited for is known: it does not change any more, so any thread may read it."""
        return member.__name__ == "wait" and bool(getattr(self._target, "is_done", False))

    def _plainly(self, function: Callable[[], Any]) -> Any:
        """Call a function that does not wait, in the loop's thread."""
        return self._loop.call(_called, function, tasks=self._held.calls, begin=lambda _: Done(function()))

    # ---- what this kind of program says ---------------------------------------------------------------------------

    def _value_of(self, name: str) -> Any:
        return self._shelled(self._plainly(functools.partial(getattr, self._target, name)))

    def _set_value(self, name: str, value: Any) -> None:
        self._plainly(functools.partial(setattr, self._target, name, value))

    def _call_member(self, member: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        call_in_trio, held, begin = self._loop.call, self._held, beginning_of(member)

        def call(*arguments: Any, **named: Any) -> Any:
            if not arguments and not named and self._is_known(member):
                return self._shelled(self._target.result())
            function, given = self._bound(member, arguments, named)
            return self._shelled(call_in_trio(function, *given, tasks=held.calls, begin=begin_like(begin, function)))

        return call

    def _iterate_member(self, member: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def iterate(*arguments: Any, **named: Any) -> Iterator[Any]:
            function, given = self._bound(member, arguments, named)
            iterator = function(*given)
            try:
                while True:
                    try:
                        yield self._call(iterator.__anext__)
                    except StopAsyncIteration:
                        return
            finally:
                self._call(iterator.aclose)

        return iterate

    def _plain_member(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            function, given = self._bound(member, arguments, named)
            return self._opened_or_shelled(self._plainly(functools.partial(function, *given)))

        return call

    def _open(self, open_scope: OpenScope) -> BlockingOpened:
        return BlockingOpened(self._loop, open_scope, self._held)

    def _handler(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def handle(*arguments: Any) -> Any:
            """Call a handler in a worker thread; a cancellation waits for it."""
            return await trio.to_thread.run_sync(function, *map(self._shelled, arguments))

        return handle


class BlockingOpened(AbstractContextManager[Any]):
    """A context manager of the client, for plain code."""

    def __init__(self, loop: LoopThread, open_scope: OpenScope, within: HeldScope | None) -> None:
        self._loop = loop
        self._held = HeldScope(open_scope)
        self._within = within

    def __enter__(self) -> Any:
        tasks = self._loop.tasks if self._within is None else self._within.calls
        value = self._loop.call(self._held.enter, tasks)
        return in_shell(BlockingShell, value, self._loop, self._held)

    def __exit__(
        self, _: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            self._loop.call(self._held.leave, failure)
        except BaseException as raised:
            if is_own(raised, failure):
                return False
            raise
        return failure is not None


class BlockingClient(AbstractContextManager[Any]):
    """A whole client: with the thread that it needs."""

    def __init__(self, open_scope: OpenScope) -> None:
        self._loop = LoopThread(THREAD_NAME)
        self._opened = BlockingOpened(self._loop, open_scope, None)

    def __enter__(self) -> Any:
        self._loop.start()
        try:
            return self._opened.__enter__()
        except BaseException:
            self._loop.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return self._opened.__exit__(kind, failure, traceback)
        finally:
            self._loop.stop()


async def _called(function: Callable[[], Any]) -> Any:
    return function()
