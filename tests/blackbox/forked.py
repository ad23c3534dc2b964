"""Programs of ours in processes that are forked from one which has imported them: none pays for its imports.

Who starts a program as a user does, and who starts it through another command, has no use for this:
:meth:`tests.blackbox.processes.Process.start`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

FORKS = multiprocessing.get_context("forkserver")
IMPORTED = ("rocketpy.broker.__main__", "rocketpy.nameserver.__main__")
IF_USED = ("bench.soak.member", "bench.soak.visitors", "tests.cli.forked")
"""They need more than brokers do, and are imported if this process has done so."""

_READING = threading.Lock()
"""Each status can be read once, and whoever starts a process reads those of all that have ended."""


class Forked:
    """The ``main`` of a module in the folder of its log, with what is used of Popen; it is ended with this process."""

    def __init__(self, module: str, arguments: Sequence[str], log_path: Path) -> None:
        # One process is forked from, whoever asks first.
        FORKS.set_forkserver_preload([*IMPORTED, *(name for name in IF_USED if name in sys.modules)])
        self._process = FORKS.Process(target=_run, args=(module, arguments, log_path, dict(os.environ)), daemon=True)
        with _READING:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, the negative number of the signal that has ended it, None while it runs."""
        with _READING:
            return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        return self.returncode

    def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        """Wait for the end and return the exit status."""
        connection.wait([self._process.sentinel], timeout)
        status = self.returncode
        if status is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()


def _run(module: str, arguments: Sequence[str], log_path: Path, variables: Mapping[str, str]) -> None:
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor, opened in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(opened, descriptor)
    os.chdir(log_path.parent)
    os.environ.clear()
    os.environ.update(variables)
    sys.exit(importlib.import_module(module).main(arguments))
