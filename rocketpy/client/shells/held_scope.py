"""Scopes of the client held open for callers outside of Trio.

Rule: every call on an object runs within the block that the object belongs to. When that block ends, or fails, a call
in progress ends with :class:`~rocketpy.errors.LocalProtocolError`, and so does every later one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import outcome
import trio

from rocketpy.client.shells.loop_call import CANCELLED, CLOSED, CallTasks, without_cancellation
from rocketpy.errors import LocalProtocolError


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

    @property
    def is_entered(self) -> bool:
        """Whether the block is open."""
        return self._calls is not None

    async def enter(self, within: CallTasks) -> object:
        """Enter the context manager in a task of its own; return or raise what it does. A cancellation leaves it."""
        within.nursery.start_soon(self._hold, within)
        try:
            await self._entered.wait()
        except trio.Cancelled:
            await self._cancel()
            raise
        if self._calls is None:
            self._result.unwrap()
        return self.value

    async def leave(self, failure: BaseException | None) -> None:
        """Leave it, with the exception of the caller's block if it has one; raises what leaving raises, once."""
        self._failure = failure
        self._left.set()
        try:
            await self._ended.wait()
        except trio.Cancelled:
            await self._cancel()
            raise
        result, self._result = self._result, outcome.Value(None)
        result.unwrap()

    async def close(self) -> None:
        """Leave it in place of the program, and before that what is open within it, the last first."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.leave, None)
            if self._calls is not None:
                for each in self._calls.scopes:
                    stack.push_async_callback(each.close)

    async def _cancel(self) -> None:
        """Cancel the task and wait: what is opened here is bounded in the time that its end takes."""
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    async def _hold(self, within: CallTasks) -> None:
        within.scopes[self] = None
        try:
            with self._scope:
                result: outcome.Outcome[object] = await outcome.acapture(self._live)
                self._result = without_cancellation(result) if isinstance(result, outcome.Error) else result
        finally:
            del within.scopes[self]
            self._calls = None
            self._entered.set()
            self._ended.set()

    async def _live(self) -> object:
        async with self._open_scope() as value:
            try:
                async with trio.open_nursery() as nursery:
                    calls = CallTasks(nursery)
                    self._calls, self.value = calls, value
                    self._entered.set()
                    try:
                        await self._left.wait()
                    finally:
                        self._calls = None
                        calls.close()
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
