"""Trio inside an asyncio loop, in the same thread: Trio's guest mode, one run for all clients of the loop.

Trio allows one run per thread, so the clients of an asyncio loop share one. It begins with the first client and ends
with the last.

A call needs no change of threads, and :mod:`rocketpy.client.shells.guest_ticks` lets asyncio wait for Trio's sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import outcome
import trio

from rocketpy.client.begun import Begun
from rocketpy.client.shells.guest_ticks import GuestTicks
from rocketpy.client.shells.loop_call import CANCELLED, CallTasks, LoopCall
from rocketpy.errors import LocalProtocolError

T = TypeVar("T")

# A table of the process, since Trio allows one run per thread, and programs open clients independently of each other.
_hosts: WeakKeyDictionary[asyncio.AbstractEventLoop, GuestHost] = WeakKeyDictionary()


class GuestHost:
    """The Trio run of one asyncio loop; use :meth:`acquire` and :meth:`release`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ticks = GuestTicks(loop)
        self._user_count = 0
        self._tasks: CallTasks | None = None
        self._ready = loop.create_future()
        self._done = loop.create_future()

    @classmethod
    async def acquire(cls) -> GuestHost:
        """Return the run of this loop, which goes on until it is released as often as it was acquired."""
        loop = asyncio.get_running_loop()
        host = _hosts.get(loop)
        if host is None:
            host = _hosts[loop] = cls(loop)
            host._start()
        host._user_count += 1
        try:
            await asyncio.shield(host._ready)
        except asyncio.CancelledError:
            await host.release()
            raise
        return host

    async def release(self) -> None:
        """End the run with its last user; returns when it has ended, also if the caller is cancelled."""
        self._user_count -= 1
        if self._user_count:
            return
        if _hosts.get(self.loop) is self:
            del _hosts[self.loop]
        await self._finish(self._ready)
        self.tasks.nursery.cancel_scope.cancel()
        await self._finish(self._done)

    @property
    def tasks(self) -> CallTasks:
        """The calls of the whole run."""
        assert self._tasks is not None, "the run has started"
        return self._tasks

    async def call(
        self,
        function: Callable[..., Awaitable[T]],
        *arguments: object,
        tasks: CallTasks | None = None,
        begin: Callable[..., Begun[T] | None] | None = None,
    ) -> T:
        """Run an async function of Trio, within other calls or the whole run; return or raise what it does.

        ``begin`` is its form that takes no task, if it has one. A cancellation of the asyncio task cancels the call,
        and is raised once that has ended.
        """
        if asyncio.get_running_loop() is not self.loop:
            raise LocalProtocolError("the client belongs to another event loop, expected the one that has opened it")
        begun = None if begin is None else begin(*arguments)
        if begun is not None and begun.is_done:
            return begun.result()
        tasks = tasks or self.tasks
        ended: asyncio.Future[None] = self.loop.create_future()
        if begun is not None:
            return await self._follow(begun, ended, tasks)
        call: LoopCall[T] = LoopCall(function, arguments, partial(_end, ended))
        self._ticks.wake()  # a task is about to be rescheduled
        tasks.start(call)
        try:
            await ended
        except asyncio.CancelledError:
            if not call.has_ended:
                await self._abandoned(call)
            raise
        return call.unwrap()

    # ---- private --------------------------------------------------------------------------------------------------

    @staticmethod
    async def _follow(begun: Begun[T], ended: asyncio.Future[None], tasks: CallTasks) -> T:
        """Wait for what was begun without a task, in as few steps as can be: many sends are such calls."""
        followed = _Followed(begun, ended)
        begun.on_done(followed.end)
        tasks.begun[followed] = None
        try:
            await ended
        except asyncio.CancelledError:
            if not begun.is_done:
                begun.abandon()
            raise
        finally:
            del tasks.begun[followed]
        if followed.is_abandoned:
            raise LocalProtocolError(CANCELLED)
        return begun.result()

    def _start(self) -> None:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._ticks.soon,
            done_callback=self._end,
            clock=self._ticks.clock,
            host_uses_signal_set_wakeup_fd=True,
        )

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._tasks = CallTasks(nursery)
            self._ready.set_result(None)
            await trio.sleep_forever()

    def _end(self, result: outcome.Outcome[None]) -> None:
        self._ticks.close()
        self._done.set_result(None)
        result.unwrap()  # a failure of the run itself is told to asyncio's handler of exceptions

    async def _abandoned(self, call: LoopCall[T]) -> None:
        """Cancel a call and wait for its end; the cancellation of its caller has taken the future with it."""
        ended: asyncio.Future[None] = self.loop.create_future()
        call.on_end = partial(_end, ended)
        call.abandon()
        await self._finish(ended)

    @staticmethod
    async def _finish(future: asyncio.Future[None]) -> None:
        """Wait for a future through cancellations, which are raised at the end."""
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError as failure:
                cancelled = failure
        if cancelled is not None:
            raise cancelled


class _Followed:
    """A call that was begun without a task, and the future of its caller."""

    __slots__ = ("_begun", "_ended", "is_abandoned")

    def __init__(self, begun: Begun[Any], ended: asyncio.Future[None]) -> None:
        self._begun = begun
        self._ended = ended
        self.is_abandoned = False
        """Whether its block has ended first."""

    def end(self) -> None:
        """Let the caller go on."""
        if not self._ended.done():
            self._ended.set_result(None)

    def abandon(self) -> None:
        """Abandon the call, unless it has ended, and let its caller go on."""
        if not self._begun.is_done:
            self.is_abandoned = True
            self._begun.abandon()
            self.end()


def _end(future: asyncio.Future[None], _: object) -> None:
    if not future.done():
        future.set_result(None)
