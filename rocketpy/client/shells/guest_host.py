"""Trio inside an asyncio loop, in the same thread: Trio's guest mode, one run for all clients of the loop.

Trio allows one run per thread, so the clients of an asyncio loop share one. It begins with the first client and ends
with the last; a client that is opened while it ends waits, and begins the next one.

A client may be left open: by a generator that nobody closes, by a program that leaves its loop. Its run must not stay
in the way of every later client of the thread:

- a loop that shuts down its async generators, as ``asyncio.run`` does, closes the client in order;
- the run of a loop that has closed without that is ended when the next client is opened (its *orphan*);
- a fork leaves the run to the parent: the child forgets it without touching it, because it shares its sockets.

In the first two cases there is a ResourceWarning, which names the client.

A call needs no change of threads, and :mod:`rocketpy.client.shells.guest_ticks` lets asyncio wait for Trio's sockets.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import outcome
import trio

from rocketpy.client.begun import Begun
from rocketpy.client.shells.guest_interrupts import GuestInterrupts
from rocketpy.client.shells.guest_ticks import GuestTicks
from rocketpy.client.shells.loop_call import CANCELLED, CallTasks, LoopCall
from rocketpy.errors import LocalProtocolError, RocketpyError
from rocketpy.forks import OTHER_PROCESS, Birthplace

T = TypeVar("T")

OTHER_LOOP = "the client belongs to another event loop, expected the one that has opened it"


class GuestUser(Protocol):
    """A client that needs a run; its ``repr`` names it."""

    async def close(self) -> object:
        """Leave its block and release the run."""
        ...


class _Thread(threading.local):
    """The one run that a thread can have. Programs open clients independently of each other."""

    host: GuestHost | None = None


_thread = _Thread()

_of_parents: list[GuestHost] = []
"""Runs that a fork has copied. They are kept: to drop one would run the ends of its tasks, on the parent's sockets."""


class GuestHost:
    """The Trio run of one asyncio loop; use :meth:`acquire` and :meth:`release`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.handlers: set[trio.Event] = set()
        """Ends of handlers, which are tasks of the loop, that the run waits for."""
        self._ticks = GuestTicks(loop)
        self._interrupts = GuestInterrupts(self._ticks.interrupt)
        self._birthplace = Birthplace()
        self._users: list[GuestUser] = []
        self._is_ending = False
        self._is_watching_loop = False
        self._leaving_count = 0  # blocks
        self._none_is_left = asyncio.Event()
        self._tasks: CallTasks | None = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._done: asyncio.Future[None] = loop.create_future()
        self._loop_end: AsyncGenerator[None, None] = self._await_loop_end()

    @classmethod
    async def acquire(cls, user: GuestUser) -> GuestHost:
        """Return the run of this loop, which goes on until all its users have released it.

        Waits for the end of a run that is ending. LocalProtocolError if the thread cannot have a run: it runs Trio
        itself, or has clients open in another loop that is not closed.
        """
        loop = asyncio.get_running_loop()
        while (host := _thread.host) is not None and (host._is_ending or not host._is_of(loop)):
            if not host.is_of_this_process:
                host._forget()
            elif host.loop is loop:
                await asyncio.shield(host._done)
            else:
                host._end_orphan()
        if host is None:
            host = cls(loop)
            host._start()
            _thread.host = host
        host._users.append(user)
        try:
            await asyncio.shield(host._ready)
            await host._watch_loop()
        except BaseException:
            await host.release(user)
            raise
        return host

    async def release(self, user: GuestUser) -> None:
        """End the run with its last user; returns when it has ended, also if the caller is cancelled."""
        if not self.is_of_this_process:
            return
        if self.loop.is_closed():  # the frame of a block in a loop that was left is being dropped
            self._end_orphan()
            return
        self._users.remove(user)
        if self._users or self._is_ending:
            return
        self._is_ending = True
        await self._finish(self._ready)
        self.tasks.nursery.cancel_scope.cancel()
        try:
            await self._finish(self._done)
        finally:
            if self._is_watching_loop:
                await self._loop_end.aclose()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Say that a block of a client is left meanwhile."""
        self._leaving_count += 1
        self._none_is_left.clear()
        try:
            yield
        finally:
            self._leaving_count -= 1
            if not self._leaving_count:
                self._none_is_left.set()

    def has_closed(self, user: GuestUser) -> bool:
        """Whether a client was closed in place of its program, or by the end of its loop."""
        return user not in self._users

    @property
    def is_of_this_process(self) -> bool:
        """Whether the run was not copied by a fork."""
        return self._birthplace.is_here

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
        lost: Callable[[T], object] | None = None,
    ) -> T:
        """Run an async function of Trio, within other calls or the whole run; return or raise what it does.

        ``begin`` is its form that takes no task, if it has one. A cancellation of the asyncio task cancels the call,
        and is raised once that has ended. If it has ended with a result all the same, ``lost`` gets that.
        """
        try:
            is_own = asyncio.get_running_loop() is self.loop
        except RuntimeError:  # also in a child that goes on with the loop of its parent
            is_own = False
        if not is_own:
            raise LocalProtocolError(OTHER_LOOP if self.is_of_this_process else OTHER_PROCESS)
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
            try:
                if not call.has_ended:
                    await self._abandoned(call)
            finally:
                call.hand_back(lost)
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

    def _is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.loop is loop and self.is_of_this_process

    def _start(self) -> None:
        self._interrupts.install()
        try:
            trio.lowlevel.start_guest_run(
                self._main,
                run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
                run_sync_soon_not_threadsafe=self._ticks.soon,
                done_callback=self._end,
                clock=self._ticks.clock,
                host_uses_signal_set_wakeup_fd=True,
            )
            self._ticks.started()
        except RuntimeError as failure:  # Trio's own
            self._interrupts.remove()
            raise LocalProtocolError(
                "this thread runs Trio already, expected one that runs asyncio alone: use rocketpy.client there"
            ) from failure

    async def _main(self) -> None:
        if self.loop.is_closed():  # while the run was starting
            return
        async with trio.open_nursery() as nursery:
            self._tasks = CallTasks(nursery)
            self._ready.set_result(None)
            await trio.sleep_forever()

    def _end(self, result: outcome.Outcome[None]) -> None:
        self._is_ending = True
        self._ticks.close()
        self._interrupts.remove()
        if _thread.host is self:
            _thread.host = None
        if self.loop.is_closed():
            if isinstance(result, outcome.Error):
                _warn(result.error, "was raised by the end of a client whose event loop was closed")
            return
        if not self._ready.done():
            self._ready.set_exception(LocalProtocolError("Trio did not start"))
        self._done.set_result(None)
        result.unwrap()  # a failure of the run itself is told to asyncio's handler of exceptions

    async def _watch_loop(self) -> None:
        if not self._is_watching_loop:
            self._is_watching_loop = True
            await anext(self._loop_end)

    async def _await_loop_end(self) -> AsyncGenerator[None, None]:
        """Close what is open when the loop shuts down its async generators, of which this is one."""
        try:
            yield
        finally:
            self._is_watching_loop = False
            if not self._is_ending:
                await self._close_users()

    async def _close_users(self) -> None:
        # Other generators are shut down at the same time, and may have clients open in blocks of their own.
        await asyncio.sleep(0)
        if self._leaving_count:
            await self._none_is_left.wait()
        for user in list(self._users):
            _warn(user, "was still open when its event loop ended, expected its block to be left")
            try:
                await user.close()
            except RocketpyError as failure:
                self.loop.call_exception_handler({"message": f"closing {user!r} failed", "exception": failure})

    def _end_orphan(self) -> None:
        """End the run of a loop that has closed. LocalProtocolError if the loop has not, or the run does not end."""
        names = ", ".join(map(repr, self._users))
        if not self.loop.is_closed():
            raise LocalProtocolError(f"this thread has {names} open in another event loop, expected that to be closed")
        for user in self._users:
            _warn(user, "was still open when its event loop was closed, expected its block to be left")
        self._is_ending = True
        for ended in self.handlers:
            ended.set()
        if self._tasks is not None:
            self._tasks.nursery.cancel_scope.cancel()
        self._users.clear()
        if not self._ticks.run_orphan():
            raise LocalProtocolError(f"{names} was still open when its event loop was closed, and does not end")

    def _forget(self) -> None:
        """Let a child have a run of its own."""
        _of_parents.append(self)
        _thread.host = None
        self._interrupts.remove()
        _forget_run()

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
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(None)


def _warn(what: object, words: str) -> None:
    warnings.warn(f"{what!r} {words}", ResourceWarning, stacklevel=3)


def _forget_run() -> None:
    """Make Trio forget the run of this thread, which is of another process. Without its name it refuses the next."""
    context = getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", None)
    if context is not None:
        context.__dict__.clear()
