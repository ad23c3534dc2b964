"""Children of a test: made by a fork, with a word about what became of them."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable

from tests.patience import PATIENCE_SECONDS


def in_child(function: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> str:
    """Return what a function returns in a child, or its exception, as text. A child that hangs is ended."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the process has threads, as in a program
        child = os.fork()
    if child == 0:
        try:
            try:
                word = str(function())
            except BaseException as failure:
                word = f"{type(failure).__name__}: {failure}"
            os.write(writing, word.encode())
        finally:
            os._exit(0)
    os.close(writing)
    ready = select.select([reading], [], [], seconds)[0]
    word = os.read(reading, 65536).decode() if ready else "it hung"
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return word
