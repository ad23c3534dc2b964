"""Containment of what a program's handler raises: it ends that call and nothing else.

The messages of the call are consumed again, whatever the failure is. Rules: no failure of a handler says anything about
the state of the client, so StoreError and AssertionError are contained here too. A cancellation passes only if the
handler has been cancelled: one that it has picked up elsewhere (a result that another task was cancelled in, which it
raises again) is a failure like any other. What ends programs passes: KeyboardInterrupt, SystemExit and every other
exception that is no Exception.

Compatibility: the listeners of ``ConsumeMessageConcurrentlyService`` and ``ConsumeMessageOrderlyService`` (4.9.8).
"""

from __future__ import annotations

import logging
import math

import trio

from rocketpy.errors import single_failures
from rocketpy.protocol.message import MessageQueue

_log = logging.getLogger("rocketpy.client")


def log_of_group(group: str) -> logging.Logger:
    """Return the logger for what the handlers of a group do, below that of the client. Python keeps it for ever."""
    return _log.getChild(f"group.{group}")


def contain_handler_failure(
    failure: BaseException, queue: MessageQueue, message_count: int, log: logging.Logger = _log
) -> None:
    """Log what a handler has raised, with its traceback; raise what must pass.

    Call it where it was caught, within the scopes that may cancel the handler. Of a group that a cancelled handler has
    raised, the cancellation passes and the rest is logged.
    """
    if not isinstance(failure, Exception):
        if not all(isinstance(each, Exception | trio.Cancelled) for each in single_failures(failure)):
            raise failure
        if trio.current_effective_deadline() == -math.inf:
            _let_cancellation_pass(failure, queue, message_count, log)
    _log_handler_failure(failure, queue, message_count, log)


def _let_cancellation_pass(
    failure: BaseException, queue: MessageQueue, message_count: int, log: logging.Logger
) -> None:
    if not isinstance(failure, BaseExceptionGroup):
        raise failure
    cancelled, rest = failure.split(trio.Cancelled)
    assert cancelled is not None, "a group of exceptions alone is an Exception"
    if rest is not None:
        _log_handler_failure(rest, queue, message_count, log)
    raise cancelled from None


def _log_handler_failure(failure: BaseException, queue: MessageQueue, message_count: int, log: logging.Logger) -> None:
    log.error("a handler of %s failed, its %d messages are redelivered", queue, message_count, exc_info=failure)
