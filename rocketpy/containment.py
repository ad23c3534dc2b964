"""Containment of unexpected failures within one request, one connection or one round of a service.

Any request may run into a bug of ours, also after its processor returned DEFERRED: in a held pull, a cold read, a
notification, the end of a connection, one round of a service. Such a piece of work runs inside :class:`Contained`. The
failure is logged once, with its traceback, and only that piece of work is given up.

Rule: ``StoreError`` and ``AssertionError`` are never contained, for they mean that the disk or our own state cannot be
trusted: they end the program. Of the StoreErrors only a ``ShortageError`` is contained (a full disk, no descriptor
left): it changes nothing and passes. ``Cancelled`` and everything else that is no ``Exception`` passes too.
"""

from __future__ import annotations

import logging
from types import TracebackType

from rocketpy.errors import ShortageError, StoreError


def is_containable(failure: BaseException) -> bool:
    """Whether a failure may end only the piece of work that it came from.

    A group is containable if each of its failures is: one StoreError among several still ends the program.
    """
    if isinstance(failure, BaseExceptionGroup):
        return all(is_containable(each) for each in failure.exceptions)
    if isinstance(failure, ShortageError):
        return True
    return isinstance(failure, Exception) and not isinstance(failure, StoreError | AssertionError)


class Contained:
    """A ``with`` block whose unexpected failure is logged and ends there.

    The text names the piece of work and the consequence; arguments are formatted only when there is a failure::

        with Contained(_log, "notifying %s of a changed group", connection.peer):
            connection.oneway(request)

    Expected failures (``RequestError``, ``RemotingError``) are caught inside the block, where they have a meaning.
    """

    __slots__ = ("_arguments", "_has_failed", "_log", "_work")

    def __init__(self, log: logging.Logger, work: str, *arguments: object) -> None:
        self._log = log
        self._work = work
        self._arguments = arguments
        self._has_failed = False

    @property
    def has_failed(self) -> bool:
        """Whether the block was given up: for a caller that still has to send an answer."""
        return self._has_failed

    def __enter__(self) -> Contained:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if failure is None or not is_containable(failure):
            return False
        self._has_failed = True
        _log_failure(failure, self._log, self._work, *self._arguments)
        return True


def contain(failure: Exception, log: logging.Logger, work: str, *arguments: object) -> None:
    """Log a failure that ends only its own piece of work; raise any other again.

    For an ``except Exception`` on a fast path, where a ``with`` block for each message would cost too much. Every such
    site is listed, with its reason, in ``tests/test_containment.py``.
    """
    if not is_containable(failure):
        raise failure
    _log_failure(failure, log, work, *arguments)


def _log_failure(failure: BaseException, log: logging.Logger, work: str, *arguments: object) -> None:
    if isinstance(failure, ShortageError):  # foreseen, so the traceback is of no use
        log.warning(f"{work} was given up: %s", *arguments, failure)
    else:
        log.error(f"{work} failed unexpectedly; only that was given up", *arguments, exc_info=failure)
