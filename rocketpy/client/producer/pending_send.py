"""The result of a send that is still under way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import trio

from rocketpy.client.begun import begun_by
from rocketpy.client.results import SendResult

_log = logging.getLogger("rocketpy.client")


class PendingSend:
    """A send under way: ``await`` it for its result, as often as you like.

    Waiting may be cancelled; that does not end the send. A failure that is never asked for is logged when the object is
    dropped.
    """

    __slots__ = ("_failure", "_result", "_then", "_waiting")

    def __init__(self) -> None:
        self._result: SendResult | None = None
        self._failure: _Failure | None = None
        self._waiting: list[Callable[[], object]] | None = None  # called once, when it is done
        self._then: Callable[[SendResult | None, Exception | None], None] | None = None

    def __await__(self) -> Generator[Any, Any, SendResult]:
        return self.wait().__await__()

    @property
    def is_done(self) -> bool:
        """Whether the result, or a failure, is known."""
        return self._result is not None or self._failure is not None

    def _begin_wait(self) -> _Wait:
        return _Wait(self)

    @begun_by(_begin_wait)
    async def wait(self) -> SendResult:
        """Return the result; raises what :meth:`Producer.send` raises.

        A result that is known is returned without letting other tasks run: a round of the event loop for each of
        thousands of them would cost as much as the send itself. The window of the producer bounds how many there are.
        """
        if self._result is None and self._failure is None:
            wake = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())

            def abort(_: object) -> trio.lowlevel.Abort:
                self.forget(wake)
                return trio.lowlevel.Abort.SUCCEEDED

            self.on_done(wake)
            await trio.lowlevel.wait_task_rescheduled(abort)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        return self.result()

    def result(self) -> SendResult:
        """Return the result without waiting; raises the failure, or trio.WouldBlock when neither is known."""
        if self._result is not None:
            return self._result
        if self._failure is None:
            raise trio.WouldBlock
        self._failure.was_raised = True
        raise self._failure.exception

    def on_done(self, function: Callable[[], object]) -> None:
        """Call a function once the result, or a failure, is known; only before that."""
        if self._waiting is None:
            self._waiting = [function]
        else:
            self._waiting.append(function)

    def forget(self, function: Callable[[], object]) -> None:
        """Do not call a function of :meth:`on_done` any more."""
        assert self._waiting is not None
        self._waiting.remove(function)

    # ---- for the producer -----------------------------------------------------------------------------------------

    def then(self, function: Callable[[SendResult | None, Exception | None], None]) -> None:
        """Call a function with the outcome; a failure counts as asked for. Once, before the outcome is known."""
        assert self._then is None
        assert not self.is_done
        self._then = function

    def succeed(self, result: SendResult) -> None:
        """Set the result."""
        assert self._result is None
        assert self._failure is None
        self._result = result
        if self._waiting is not None:
            self._wake(self._waiting)
        if self._then is not None:
            self._then(result, None)

    def fail(self, exception: Exception, topic: str) -> None:
        """Set the failure."""
        assert not self.is_done
        self._failure = _Failure(exception, topic)
        if self._waiting is not None:
            self._wake(self._waiting)
        if self._then is not None:
            self._failure.was_raised = True
            self._then(None, exception)

    def _wake(self, waiting: list[Callable[[], object]]) -> None:
        self._waiting = None
        for function in waiting:
            function()


class _Wait:
    """One caller that waits for a send; the send does not end with it."""

    __slots__ = ("_function", "_pending")

    def __init__(self, pending: PendingSend) -> None:
        self._pending = pending
        self._function: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        return self._pending.is_done

    def result(self) -> SendResult:
        return self._pending.result()

    def on_done(self, function: Callable[[], object]) -> None:
        self._function = function
        self._pending.on_done(function)

    def abandon(self) -> None:
        if self._function is not None and not self._pending.is_done:
            self._pending.forget(self._function)


class _Failure:
    """A failure, which logs itself if it is dropped before it was raised."""

    __slots__ = ("_topic", "exception", "was_raised")

    def __init__(self, exception: Exception, topic: str) -> None:
        self.exception = exception
        self.was_raised = False
        self._topic = topic

    def __del__(self) -> None:
        if not self.was_raised:
            _log.error("a message to topic %s was not sent, and nothing waited for it: %s", self._topic, self.exception)
