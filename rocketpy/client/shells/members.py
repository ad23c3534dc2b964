"""What the clients for asyncio and for plain code share: which members of a class wait, and scopes held open for them.

Both are shells around the objects of :mod:`rocketpy.client`, made by looking at their classes, so a new method of a
producer or consumer is there at once. A member is one of five kinds (:class:`Kind`); an object is put into a shell if
it has a member that waits, and passed on as it is if it is a value.

Rule: every call on an object runs within the block that the object belongs to. When that block ends, or fails, a call
in progress ends with :class:`~rocketpy.errors.LocalProtocolError`, and so does every later one.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
import typing
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import outcome
import trio

from rocketpy.client.shells.loop_call import CANCELLED, CLOSED, CallTasks
from rocketpy.errors import LocalProtocolError

_WAITING_METHODS = ("__aiter__", "__anext__", "__await__", "__aenter__")


class Kind(enum.Enum):
    """How a member of an object of the client is used."""

    CALL = "a method to be awaited"
    OPEN = "a method that returns an async context manager"
    ITERATE = "an async generator"
    PLAIN = "a method that does not wait"
    VALUE = "an attribute or property"


@functools.cache
def kind_of(owner: type, name: str) -> Kind:
    """Return the kind of a member."""
    member = inspect.getattr_static(owner, name, None)
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if not inspect.isfunction(member):
        return Kind.VALUE
    if inspect.iscoroutinefunction(member):
        return Kind.CALL
    inner = inspect.unwrap(member)
    if inspect.isasyncgenfunction(inner):
        return Kind.ITERATE if inner is member else Kind.OPEN
    return Kind.PLAIN


@functools.cache
def has_waiting_members(owner: type) -> bool:
    """Whether objects of a class need a shell."""
    if not owner.__module__.startswith("rocketpy.client."):
        return False
    waits = (Kind.CALL, Kind.OPEN, Kind.ITERATE)
    return any(hasattr(owner, name) for name in _WAITING_METHODS) or any(
        kind_of(owner, name) in waits for name in dir(owner) if not name.startswith("_")
    )


@functools.cache
def handler_parameters(function: Callable[..., object]) -> frozenset[int | str]:
    """Return which parameters of a method take a function to be awaited: position, without self, and name of each."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # a type that is imported for type checkers only
        return frozenset()
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    found = [(index, name) for index, name in enumerate(names) if _is_awaited(hints.get(name))]
    return frozenset(each for pair in found for each in pair)


def _is_awaited(hint: object) -> bool:
    if typing.get_origin(hint) is collections.abc.Callable:
        result = typing.get_origin(typing.get_args(hint)[-1])
        return isinstance(result, type) and issubclass(result, collections.abc.Awaitable)
    return any(_is_awaited(each) for each in typing.get_args(hint))


class HeldScope:
    """An async context manager that is entered and left in one Trio task, for a caller outside of Trio."""

    def __init__(self, open_scope: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._open_scope = open_scope
        self._scope = trio.CancelScope()
        self._entered = trio.Event()
        self._left = trio.Event()
        self._ended = trio.Event()
        self._failure: BaseException | None = None  # of the caller's block
        self._result: outcome.Outcome[object] = outcome.Error(LocalProtocolError(CANCELLED))
        self._calls: CallTasks | None = None
        self.value: object = None
        """What the context manager returned."""

    @property
    def calls(self) -> CallTasks:
        """The calls on what was opened here; LocalProtocolError once the block has ended."""
        if self._calls is None:
            raise LocalProtocolError(CLOSED)
        return self._calls

    async def enter(self, within: CallTasks) -> object:
        """Enter the context manager in a task of its own; return or raise what it does. A cancellation leaves it."""
        within.nursery.start_soon(self._hold)
        try:
            await self._entered.wait()
        except trio.Cancelled:
            await self._cancel()
            raise
        if self._calls is None:
            self._result.unwrap()
        return self.value

    async def leave(self, failure: BaseException | None) -> None:
        """Leave it, with the exception of the caller's block if it has one; raises what leaving raises."""
        self._failure = failure
        self._left.set()
        try:
            await self._ended.wait()
        except trio.Cancelled:
            await self._cancel()
            raise
        self._result.unwrap()

    async def _cancel(self) -> None:
        """Cancel the task and wait: what is opened here is bounded in the time that its end takes."""
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    async def _hold(self) -> None:
        try:
            with self._scope:
                result: outcome.Outcome[object] = await outcome.acapture(self._live)
                if isinstance(result, outcome.Error) and isinstance(result.error, trio.Cancelled):
                    raise result.error
                self._result = result
        finally:
            self._calls = None
            self._entered.set()
            self._ended.set()

    async def _live(self) -> object:
        async with self._open_scope() as value:
            try:
                async with trio.open_nursery() as nursery:
                    self._calls, self.value = CallTasks(nursery), value
                    self._entered.set()
                    await self._left.wait()
                    self._calls = None
                    nursery.cancel_scope.cancel()
            finally:
                self._calls = None
            if self._failure is not None:
                raise self._failure
        return None


def is_own(raised: BaseException, failure: BaseException | None) -> bool:
    """Whether what leaving a block raised is only the block's own exception."""
    # Python does not let a StopIteration out of a coroutine as it is.
    return raised is failure or (isinstance(raised, RuntimeError) and raised.__cause__ is failure is not None)
