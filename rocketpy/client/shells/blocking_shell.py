"""Objects of the client for plain code: Trio runs in a thread of its own (:mod:`.loop_thread`)."""

from __future__ import annotations

import atexit
import functools
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any

from rocketpy.client.begun import Done, beginning_of
from rocketpy.client.callers import Taking, form_for_caller, is_handed_over, is_in_chunks, taking_of
from rocketpy.client.shells.held_scope import HeldScope, is_own
from rocketpy.client.shells.loop_call import LoopCall
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.client.shells.shell import OpenScope, Shell, begin_like, in_shell
from rocketpy.client.validators import is_async

THREAD_NAME = "rocketpy-client"

EXIT_SECONDS = 10.0
"""How long the end of the program waits for a client that was left open; a handler in a thread may take any time."""

CHUNK_COUNT = 1000
"""Values of an iterable that cross to the loop's thread together."""

_log = logging.getLogger("rocketpy.client")


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
            return self._next()
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

    @functools.cached_property
    def _next(self) -> Callable[[], Any]:
        return self._call_member(self._target.__anext__)

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
        if (taking := taking_of(member)) is not None:
            return self._take_member(taking)
        call_in_trio, held = self._loop.call, self._held
        for_caller = form_for_caller(member)
        begin = beginning_of(for_caller or member)
        lost: deque[Any] = deque()
        keep = lost.append if is_handed_over(member) else None

        def call(*arguments: Any, **named: Any) -> Any:
            if not arguments and not named and self._is_known(member):
                return self._shelled(self._target.result())
            if lost:
                return self._shelled(lost.popleft())
            function, given = self._bound(member, arguments, named)
            started = begin_like(begin, function)
            return self._shelled(call_in_trio(function, *given, tasks=held.calls, begin=started, lost=keep))

        if is_in_chunks(member):
            return partial(_call_for_chunks, call)
        if for_caller is None:
            return call
        member = for_caller
        return lambda *arguments, **named: call(threading.current_thread(), *arguments, **named)

    def _take_member(self, taking: Taking) -> Callable[[], Any]:
        """Take what is here without a change of threads."""
        loop, held = self._loop, self._held

        def take() -> Any:
            loop.check_process()
            caller = threading.current_thread()
            while True:
                calls = held.calls  # LocalProtocolError once the block has ended
                if (taken := taking.ready(caller)) is not None:
                    return taken
                loop.call(taking.wait, tasks=calls)

        return take

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
        if is_async(function):
            raise TypeError(f"expected a plain function, found {function!r}: plain code awaits nothing")
        call_in_thread = self._loop.handler_threads.call

        async def handle(*arguments: Any) -> Any:
            """Call a handler in a worker thread."""
            return await call_in_thread(function, *map(self._shelled, arguments))

        return handle


class BlockingOpened(AbstractContextManager[Any]):
    """A context manager of the client, for plain code."""

    def __init__(self, loop: LoopThread, open_scope: OpenScope, within: HeldScope | None) -> None:
        self._loop = loop
        self._held = HeldScope(open_scope)
        self._within = within

    def __enter__(self) -> Any:
        tasks = self._loop.tasks if self._within is None else self._within.calls
        try:
            value = self._loop.call(self._held.enter, tasks)
        except KeyboardInterrupt:
            if self._held.is_entered:  # the interrupt came a moment later
                self._loop.call(self._held.leave, None)
            raise
        return in_shell(BlockingShell, value, self._loop, self._held)

    def __exit__(
        self, _: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not self._loop.is_of_this_process:
            return False  # the block is the parent's
        try:
            self._loop.call(self._held.leave, failure)
        except BaseException as raised:
            if is_own(raised, failure):
                return False
            raise
        return failure is not None

    def close_in(self, seconds: float) -> bool:
        """Leave the block, and those within it, in place of the program; whether that has ended in time."""
        ended = threading.Event()
        call = LoopCall(self._held.close, (), lambda _: ended.set())
        self._loop.submit(call)
        return ended.wait(seconds)


class BlockingClient(AbstractContextManager[Any]):
    """A whole client: with the thread that it needs."""

    def __init__(self, open_scope: OpenScope, name: str) -> None:
        self._name = name
        self._loop = LoopThread(THREAD_NAME)
        self._opened = BlockingOpened(self._loop, open_scope, None)

    def __enter__(self) -> Any:
        self._loop.start()
        try:
            value = self._opened.__enter__()
        except BaseException:
            self._loop.stop()
            raise
        atexit.register(self.close_at_exit)
        return value

    def close_at_exit(self) -> None:
        """Send what is in flight, for a program that ends without having left the block. Its threads still run."""
        if self._loop.is_running:
            _log.warning("%s was left open until the end of the program, and is closed now", self._name)
            if not self._opened.close_in(EXIT_SECONDS):
                _log.warning("%s did not end in %g s, so what it was doing is lost", self._name, EXIT_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        atexit.unregister(self.close_at_exit)
        try:
            return self._opened.__exit__(kind, failure, traceback)
        finally:
            self._loop.stop()


def _call_for_chunks(call: Callable[..., list[Any]], iterable: Iterable[Any], **named: Any) -> list[Any]:
    results: list[Any] = []
    rest = iter(iterable)
    while chunk := list(islice(rest, CHUNK_COUNT)):
        results += call(chunk, **named)
    return results


async def _called(function: Callable[[], Any]) -> Any:
    return function()
