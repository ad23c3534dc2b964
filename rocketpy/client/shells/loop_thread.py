"""A Trio loop in a thread of its own, for programs that have no Trio loop: plain code and test fixtures."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import outcome
import trio

from rocketpy.client.begun import Begun
from rocketpy.client.shells.handler_threads import HandlerThreads
from rocketpy.client.shells.loop_call import CLOSED, CallTasks, LoopCall
from rocketpy.errors import LocalProtocolError
from rocketpy.forks import OTHER_PROCESS, Birthplace

T = TypeVar("T")

SIGNAL_SECONDS = 0.5
"""How late a KeyboardInterrupt may be."""


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
        self._tasks: CallTasks | None = None
        self._birthplace = Birthplace()
        self.handler_threads = HandlerThreads()
        self.failure: BaseException | None = None
        """What has ended the loop, other than :meth:`stop`."""

    @property
    def is_running(self) -> bool:
        """Whether calls are taken."""
        return self._token is not None and self._thread is not None and self._thread.is_alive()

    @property
    def is_of_this_process(self) -> bool:
        """Whether the thread is: a fork copies the object without its thread."""
        return self._birthplace.is_here

    def check_process(self) -> None:
        """LocalProtocolError in a child of the process that has started the thread."""
        if not self.is_of_this_process:
            raise LocalProtocolError(OTHER_PROCESS)

    @property
    def tasks(self) -> CallTasks:
        """The calls of the whole loop; for code that runs in it."""
        assert self._tasks is not None, "the loop runs"
        return self._tasks

    def start(self) -> None:
        """Start the thread; returns when calls are taken."""
        # A daemon: a program that forgets to close it must still be able to end.
        self._birthplace = Birthplace()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._ready.acquire()

    def stop(self) -> None:
        """Cancel everything that runs, and wait for the thread. Idempotent; not from within the loop.

        Does nothing in a child of the process that has started it.
        """
        thread, token = self._thread, self._token
        if thread is None or token is None or not self.is_of_this_process:
            return
        try:
            token.run_sync_soon(self._cancel)
        except trio.RunFinishedError:
            pass
        thread.join()
        self._token = None

    def submit(self, call: LoopCall[Any], tasks: CallTasks | None = None) -> None:
        """Start a call from any thread, within other calls or the whole loop; LocalProtocolError once it has ended."""
        if tasks is None:
            tasks = self._tasks
        if tasks is None:
            raise LocalProtocolError(CLOSED)
        self.soon(tasks.start, call)

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a plain function in the loop's thread soon.

        LocalProtocolError when the loop has ended, or was started in another process.
        """
        try:
            self.check_process()
            if self._token is None:
                raise LocalProtocolError(CLOSED)
            self._token.run_sync_soon(function, *arguments)
        except trio.RunFinishedError:
            raise LocalProtocolError(CLOSED) from None

    def call(
        self,
        function: Callable[..., Awaitable[T]],
        *arguments: object,
        tasks: CallTasks | None = None,
        begin: Callable[..., Begun[T] | None] | None = None,
        lost: Callable[[T], object] | None = None,
    ) -> T:
        """Run an async function to its end; return or raise what it does. ``begin`` is its form that takes no task.

        An exception in the waiting thread (KeyboardInterrupt) cancels it, and is raised once it has ended. If it has
        ended with a result all the same, ``lost`` gets that.
        """
        ended = threading.Lock()
        ended.acquire()
        call = LoopCall(function, arguments, lambda _: ended.release(), begin=begin)
        try:
            self.submit(call, tasks)
            _wait(ended)
        except LocalProtocolError:
            raise
        except BaseException:  # it may have come before the loop knows of the call, or after its end
            self.soon(call.abandon)
            if not call.has_ended:  # else the lock may have been acquired already, and nobody releases it again
                _wait(ended)
            call.hand_back(lost)
            raise
        return call.unwrap()

    # ---- private --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        result = outcome.capture(partial(trio.run, self._main, clock=self._clock, instruments=self._instruments))
        if isinstance(result, outcome.Error):
            self.failure = result.error
        self._ready.release()

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._tasks = CallTasks(nursery)
            self._token = trio.lowlevel.current_trio_token()
            self._ready.release()
            await trio.sleep_forever()

    def _cancel(self) -> None:
        self.tasks.nursery.cancel_scope.cancel()


def _wait(ended: threading.Lock) -> None:
    """Wait for a lock. Python runs the handler of a signal only when this returns, so it returns now and then.

    A signal that comes just before a wait, or to another thread, does not end the wait.
    """
    while not ended.acquire(timeout=SIGNAL_SECONDS):
        pass
