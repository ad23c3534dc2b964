"""A Trio loop in a thread of its own, for programs that have no Trio loop: plain code, asyncio, test fixtures.

Every call becomes a task of that loop. A caller that waits may give up: then the task is cancelled, and the caller goes
on once it has ended, so nothing of a call goes on behind the back of its caller.

Rule: a call belongs to a nursery, by default the loop's own. When that nursery is cancelled, the call ends with
:class:`LocalProtocolError`, never with a wait for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import outcome
import trio

from rocketpy.errors import LocalProtocolError

T = TypeVar("T")

CANCELLED = "the client was closed while the call was in progress"
CLOSED = "the client is closed"


class LoopCall(Generic[T]):
    """One call: a task of the loop, and what becomes of it."""

    __slots__ = ("_arguments", "_function", "_has_started", "has_ended", "on_end", "result", "scope")

    def __init__(
        self,
        function: Callable[..., Awaitable[T]],
        arguments: Sequence[object],
        on_end: Callable[[LoopCall[T]], object],
    ) -> None:
        """``on_end`` is called in the loop's thread, exactly once, when :attr:`result` is set."""
        self.scope = trio.CancelScope()
        self.result: outcome.Outcome[T] = outcome.Error(LocalProtocolError(CLOSED))
        self.on_end = on_end
        self.has_ended = False
        self._has_started = False
        self._function = function
        self._arguments = arguments

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task; in the loop's thread. A nursery that has ended ends the call."""
        if self.has_ended:
            return
        self._has_started = True
        try:
            nursery.start_soon(self._run)
        except RuntimeError:  # Trio's own: the nursery is closed
            self._end()

    def abandon(self) -> None:
        """Cancel the task, or never start it; in the loop's thread."""
        if self._has_started:
            self.scope.cancel()
        else:
            self._end()

    async def _run(self) -> None:
        self.result = outcome.Error(LocalProtocolError(CANCELLED))
        try:
            with self.scope:
                result = await outcome.acapture(self._function, *self._arguments)
                if isinstance(result, outcome.Error) and isinstance(result.error, trio.Cancelled):
                    raise result.error
                self.result = result
        finally:
            self._end()

    def _end(self) -> None:
        self.has_ended = True
        self.on_end(self)


class LoopThread:
    """A thread that runs a Trio loop from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        name: str,
        *,
        clock: trio.abc.Clock | None = None,
        instruments: Sequence[trio.abc.Instrument] = (),
    ) -> None:
        self._name = name
        self._clock = clock
        self._instruments = instruments
        self._ready = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self.failure: BaseException | None = None
        """What has ended the loop, other than :meth:`stop`."""

    @property
    def is_running(self) -> bool:
        """Whether calls are taken."""
        return self._token is not None and self._thread is not None and self._thread.is_alive()

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of the whole loop; for code that runs in it."""
        assert self._nursery is not None, "the loop runs"
        return self._nursery

    def start(self) -> None:
        """Start the thread; returns when calls are taken."""
        # A daemon: a program that forgets to close it must still be able to end.
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._ready.acquire()

    def stop(self) -> None:
        """Cancel everything that runs, and wait for the thread. Idempotent; not from within the loop."""
        thread, token = self._thread, self._token
        if thread is None or token is None:
            return
        try:
            token.run_sync_soon(self._cancel)
        except trio.RunFinishedError:
            pass
        thread.join()
        self._token = None

    def submit(self, call: LoopCall[Any], nursery: trio.Nursery | None = None) -> None:
        """Start a call from any thread; LocalProtocolError when the loop has ended."""
        self.soon(self._start_call, call, nursery)

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a plain function in the loop's thread soon; LocalProtocolError when the loop has ended."""
        try:
            if self._token is None:
                raise LocalProtocolError(CLOSED)
            self._token.run_sync_soon(function, *arguments)
        except trio.RunFinishedError:
            raise LocalProtocolError(CLOSED) from None

    def call(self, function: Callable[..., Awaitable[T]], *arguments: object, nursery: trio.Nursery | None = None) -> T:
        """Run an async function to its end; return or raise what it does.

        An exception in the waiting thread (KeyboardInterrupt) cancels it, and is raised once it has ended.
        """
        ended = threading.Lock()
        ended.acquire()
        call = LoopCall(function, arguments, lambda _: ended.release())
        try:
            self.submit(call, nursery)
            ended.acquire()
        except LocalProtocolError:
            raise
        except BaseException:  # it may have come before the loop knows of the call, or after its end
            self.soon(call.abandon)
            ended.acquire()
            raise
        return call.result.unwrap()

    # ---- private --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        result = outcome.capture(partial(trio.run, self._main, clock=self._clock, instruments=self._instruments))
        if isinstance(result, outcome.Error):
            self.failure = result.error
        self._ready.release()

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._ready.release()
            await trio.sleep_forever()

    def _cancel(self) -> None:
        self.nursery.cancel_scope.cancel()

    def _start_call(self, call: LoopCall[Any], nursery: trio.Nursery | None) -> None:
        call.start(self.nursery if nursery is None else nursery)
