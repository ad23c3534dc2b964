"""Forks of this process: a child must not use the clients of its parent. It shares their sockets, and has no threads.

``os.getpid`` would tell too, but it is a system call, and clients ask once for each request.
"""

from __future__ import annotations

import os

OTHER_PROCESS = "the client was opened in another process, expected one that was opened after the fork"


class _Forks:
    """The forks between the first process and this one."""

    def __init__(self) -> None:
        self.count = 0
        self._is_watching = False

    def watch(self) -> None:
        """Count from now on; at the first client, because a program that has none need not."""
        if not self._is_watching and hasattr(os, "register_at_fork"):
            self._is_watching = True
            os.register_at_fork(after_in_child=self._note)

    def _note(self) -> None:
        self.count += 1


_forks = _Forks()


class Birthplace:
    """The process in which an object was made."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        _forks.watch()
        self._count = _forks.count

    @property
    def is_here(self) -> bool:
        """Whether this is that process, and not a child of it."""
        return self._count == _forks.count
