"""The client in plain code: the same calls, without ``async`` and ``await``.

::

    with blocking.open_client("127.0.0.1:9876") as client:
        with client.producer("g") as producer:
            producer.send(Message("T", b"hello"))
        with client.pull_consumer("g") as consumer, consumer.open_messages("T") as messages:
            for message in messages:
                ...

Everything that :mod:`rocketpy.client` opens is here, with the same names, parameters, results and errors. A client has
a thread of its own, in which Trio runs; it may be used from any number of threads. A call blocks its thread until it
has ended. KeyboardInterrupt, while a call blocks, cancels it, and is raised once it has ended. A function that is
handed over (a handler of messages) is called in a worker thread.

Each call crosses to the other thread and back, which takes about 0.1 ms: for many messages, send them in batches or
from several threads.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, ParamSpec

import trio

from rocketpy.client import client as trio_client
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.client.shells.members import HeldScope, Kind, handler_parameters, has_waiting_members, is_own, kind_of

P = ParamSpec("P")

__all__ = ["open_admin_client", "open_client", "open_producer", "open_pull_consumer"]

THREAD_NAME = "rocketpy-client"


def _opener(function: Callable[P, AbstractAsyncContextManager[Any]]) -> Callable[P, AbstractContextManager[Any]]:
    """Return an opener of the client for plain code."""

    @functools.wraps(function)
    def opening(*arguments: P.args, **named: P.kwargs) -> AbstractContextManager[Any]:
        return _OpenedClient(functools.partial(function, *arguments, **named))

    return opening


class _Opened(AbstractContextManager[Any]):
    """A context manager of the client, for plain code."""

    def __init__(
        self, loop: LoopThread, open_scope: Callable[[], AbstractAsyncContextManager[Any]], within: HeldScope | None
    ) -> None:
        self._loop = loop
        self._held = HeldScope(open_scope)
        self._within = within

    def __enter__(self) -> Any:
        tasks = self._loop.tasks if self._within is None else self._within.calls
        value = self._loop.call(self._held.enter, tasks)
        return _shelled(value, self._loop, self._held)

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


class _OpenedClient(AbstractContextManager[Any]):
    """A whole client: with the thread that it needs."""

    def __init__(self, open_scope: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._loop = LoopThread(THREAD_NAME)
        self._opened = _Opened(self._loop, open_scope, None)

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


class BlockingShell:
    """An object of the client, each of its members made for plain code."""

    def __init__(self, target: Any, loop: LoopThread, held: HeldScope) -> None:
        self._target = target
        self._loop = loop
        self._held = held
        self._opened: _Opened | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self._target).__name__!r} object has no public attribute {name!r}", name=name)
        kind = kind_of(self._target.__class__, name)
        if kind is Kind.VALUE:
            return self._call(_plainly, getattr, self._target, name)
        made = _MAKERS[kind](self, getattr(self._target, name))
        self.__dict__[name] = made  # found without __getattr__ from now on
        return made

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<blocking shell of {self._target!r}>"

    def __iter__(self) -> Any:
        if hasattr(self._target, "__aiter__"):
            iterator = self._target.__aiter__()
            return self if iterator is self._target else _shelled(iterator, self._loop, self._held)
        return iter(self._target)

    def __next__(self) -> Any:
        try:
            return self._call(self._target.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __len__(self) -> int:
        return len(self._target)

    def __enter__(self) -> Any:
        self._opened = _Opened(self._loop, lambda: self._target, self._held)
        return self._opened.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._opened is not None
        return self._opened.__exit__(kind, failure, traceback)

    def _call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return _shelled(self._loop.call(function, *arguments, tasks=self._held.calls), self._loop, self._held)

    def _bound(
        self, member: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Callable[..., Any]:
        """Return a call of a member with arguments as the client takes them."""
        given = [self._handed(member, index, each) for index, each in enumerate(arguments)]
        return functools.partial(
            member, *given, **{name: self._handed(member, name, each) for name, each in named.items()}
        )

    def _handed(self, member: Callable[..., Any], parameter: int | str, value: Any) -> Any:
        """Return an argument without its shell, and a handler as an async function."""
        if isinstance(value, BlockingShell):
            return value._target
        if callable(value) and parameter in handler_parameters(getattr(member, "__func__", member)):
            return functools.partial(_handle, value, self._loop, self._held)
        return value


async def _handle(function: Callable[..., Any], loop: LoopThread, held: HeldScope, *arguments: Any) -> Any:
    """Call a handler in a worker thread; a cancellation waits for it."""
    return await trio.to_thread.run_sync(function, *(_shelled(each, loop, held) for each in arguments))


async def _plainly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that does not wait, in the loop's thread."""
    return function(*arguments)


def _call_member(shell: BlockingShell, member: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(*arguments: Any, **named: Any) -> Any:
        return shell._call(shell._bound(member, arguments, named))

    return call


def _open_member(shell: BlockingShell, member: Callable[..., Any]) -> Callable[..., _Opened]:
    @functools.wraps(member)
    def opening(*arguments: Any, **named: Any) -> _Opened:
        return _Opened(shell._loop, shell._bound(member, arguments, named), shell._held)

    return opening


def _iterate_member(shell: BlockingShell, member: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(member)
    def iterate(*arguments: Any, **named: Any) -> Iterator[Any]:
        iterator = shell._bound(member, arguments, named)()
        try:
            while True:
                try:
                    yield shell._call(iterator.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            shell._call(iterator.aclose)

    return iterate


def _plain_member(shell: BlockingShell, member: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(*arguments: Any, **named: Any) -> Any:
        result = shell._call(_plainly, shell._bound(member, arguments, named))
        if isinstance(result, AbstractAsyncContextManager):
            return _Opened(shell._loop, lambda: result, shell._held)
        return result

    return call


_MAKERS: dict[Kind, Callable[[BlockingShell, Callable[..., Any]], Any]] = {
    Kind.CALL: _call_member,
    Kind.OPEN: _open_member,
    Kind.ITERATE: _iterate_member,
    Kind.PLAIN: _plain_member,
}


def _shelled(value: Any, loop: LoopThread, held: HeldScope) -> Any:
    return BlockingShell(value, loop, held) if has_waiting_members(value.__class__) else value


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
