"""Handlers of plain code in worker threads, and the threads that are left when the time of their handler is over.

A thread cannot be cancelled. A handler that exceeds the time that its caller allows (``consume_timeout``) is left: the
call ends, the thread goes on until the handler returns, and its result is ignored. Any other cancellation, such as the
end of a consumer, waits for the handler.

Rule: at most :data:`LEFT_THREADS_MAX` threads of a client are left, and one more for each handler that runs when the
bound is reached. From then on the caller waits for its handler, however long it takes.

Compatibility: the threads of ``ConsumeMessageConcurrentlyService`` (4.9.8) stay occupied; their messages are sent back.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import trio

LEFT_THREADS_MAX = 100

_log = logging.getLogger("rocketpy.client")


class HandlerThreads:
    """The handlers of one client."""

    def __init__(self) -> None:
        # Who calls a handler says how many run at once; Trio's default would be 40 for all handlers of the client.
        self._limiter = trio.CapacityLimiter(math.inf)
        self._lock = threading.Lock()  # of what the calls note, which the loop and their threads do
        self._left_count = 0

    @property
    def left_count(self) -> int:
        """The threads that are left and have not ended yet."""
        return self._left_count

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a thread, within the deadline of the scopes around; return or raise what it does."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = HandlerCall(self, function, arguments)
        deadline = trio.current_effective_deadline() if self._left_count < LEFT_THREADS_MAX else math.inf
        with trio.CancelScope(shield=True, deadline=deadline):
            return await trio.to_thread.run_sync(call.run, abandon_on_cancel=True, limiter=self._limiter)
        self.leave(call)
        return await trio.sleep_forever()  # the scope whose deadline it was ends this

    def begin(self, call: HandlerCall) -> bool:
        """Note that the thread of a call begins; False when the call was left before."""
        with self._lock:
            call.has_begun = not call.is_left
            return call.has_begun

    def end(self, call: HandlerCall) -> bool:
        """Note that the function of a call has ended; True when it was left."""
        with self._lock:
            call.has_ended = True
            self._left_count -= call.is_left
            return call.is_left

    def leave(self, call: HandlerCall) -> None:
        """Note that nothing waits for a call any longer, unless it has just ended."""
        with self._lock:
            call.is_left = not call.has_ended
            self._left_count += call.is_left and call.has_begun
        if self._left_count == LEFT_THREADS_MAX:
            _log.error("%d handlers that took too long still run; further ones are waited for", LEFT_THREADS_MAX)


class HandlerCall:
    """One call of a function, from its thread's point of view."""

    def __init__(self, threads: HandlerThreads, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.has_begun = False
        self.has_ended = False
        self.is_left = False
        self._threads = threads
        self._function = function
        self._arguments = arguments

    def run(self) -> Any:
        """Call the function; for the thread."""
        if not self._threads.begin(self):
            return None
        failure: BaseException | None = None
        try:
            return self._function(*self._arguments)
        except BaseException as raised:
            failure = raised
            raise
        finally:
            if self._threads.end(self):
                _log.warning("a handler that took too long has ended, its result is ignored", exc_info=failure)
