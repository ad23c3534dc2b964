"""Containment of what functions of the program raise that the client calls: hooks, and tasks that pull.

Rule: such a failure says nothing about the state of the client, so StoreError and AssertionError end here too, which
:class:`rocketpy.containment.Contained` lets pass because of our own state. Cancellations and what ends programs
(KeyboardInterrupt, SystemExit) pass. Handlers of messages have :mod:`rocketpy.client.consumer.handler_failure`.
"""

from __future__ import annotations

import logging
from types import TracebackType


class ProgramCall:
    """A ``with`` block around a call of the program's; an Exception is logged with its traceback and ends there."""

    __slots__ = ("_arguments", "_log", "_what")

    def __init__(self, log: logging.Logger, what: str, *arguments: object) -> None:
        """``what`` names the function and when it is called; ``arguments`` are formatted only when it fails."""
        self._log = log
        self._what = what
        self._arguments = arguments

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(failure, Exception):
            return False
        text = f"{self._what} failed unexpectedly; only that was given up"
        log_program_failure(failure, self._log, text, *self._arguments)
        return True


def log_program_failure(failure: Exception, log: logging.Logger, text: str, *arguments: object) -> None:
    """Log a failure that ends only its own call: for an ``except Exception`` that needs it for something else too."""
    log.error(text, *arguments, exc_info=failure)
