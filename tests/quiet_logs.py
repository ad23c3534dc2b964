"""Loggers that a test sets up as a program does, and that are as before when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rocketpy.log_files import Concern


@contextmanager
def restored_loggers(concerns: Sequence[Concern]) -> Iterator[None]:
    """Leave the loggers of the process as they were: the root, and those of these concerns."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for logger in (root, *(logging.getLogger(each.logger) for each in concerns)):
            for handler in logger.handlers[:]:
                logger.removeHandler(handler)
                handler.close()
            logger.propagate = True
            logger.setLevel(logging.NOTSET)
        root.handlers[:] = kept
        root.setLevel(level)
