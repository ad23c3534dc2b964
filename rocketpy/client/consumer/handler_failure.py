"""Containment of exceptions of a program's handler: they end that call and nothing else.

The messages of the call are consumed again, whatever the failure is. Rule: no failure of a handler says anything about
the state of the client, so StoreError and AssertionError are contained here too.

Compatibility: the listeners of ``ConsumeMessageConcurrentlyService`` and ``ConsumeMessageOrderlyService`` (4.9.8).
"""

from __future__ import annotations

import logging

from rocketpy.protocol.message import MessageQueue

_log = logging.getLogger("rocketpy.client")


def log_handler_failure(failure: Exception, queue: MessageQueue, message_count: int) -> None:
    """Log what a handler has raised, with its traceback."""
    _log.error("a handler of %s failed, its %d messages are redelivered", queue, message_count, exc_info=failure)
