"""Programs whose calls of a simulated disk are made one at a time, when a test says so: any interleaving can be drawn.

Each piece of work runs in a thread of its own, which halts before each call of the disk and before it lets a lock go.
One thread runs at a time, so a schedule is the same in every run. A write is two calls: in between others find half of
it, and a program that dies there leaves half. A lock that another program holds is waited for: the program
cannot make a step until the lock is free. A program that dies makes no call any more, and its locks are free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rocketpy.testing.sim.disk import ProcessDied, SimDisk

_PATIENCE_SECONDS = 60.0
"""Only a thread that blocks elsewhere than at the disk needs so long."""


class Program:
    """One program and its view of the disk, ``disk``. Work that is called from outside does not halt."""

    def __init__(self, disk: SimDisk, holders: dict[str, Program]) -> None:
        self.disk: Any = _SteppedDisk(self, disk)
        self.holders = holders
        """Which program has which lock; all programs of a disk share it."""
        self.result: object = None
        self.failure: BaseException | None = None
        self._waits_for = ""
        self._is_dead = False
        self._thread: threading.Thread | None = None
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)

    @property
    def is_busy(self) -> bool:
        """Whether it has work that has not come to its end."""
        return self._thread is not None

    @property
    def may_step(self) -> bool:
        """Whether it is busy, and waits for no lock of another."""
        return self.is_busy and self._waits_for not in self.holders

    def begin(self, work: Callable[[], object]) -> None:
        """Do work up to its first call of the disk."""
        assert not self.is_busy
        self.result = self.failure = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._continue()

    def step(self) -> None:
        """Make the call that it halts before, and go on to the next one or to the end."""
        assert self.may_step
        self._continue()

    def die(self) -> None:
        """End it where it is: no call comes any more, and its locks are free."""
        for path in [path for path, holder in self.holders.items() if holder is self]:
            self.disk.free(path)
        if self.is_busy:
            self._is_dead = True
            self._continue()
            self._is_dead = False

    # ---- for the disk -----------------------------------------------------------------------------------------------

    def halt(self, method: str, path: str, *, waits_for: str = "") -> None:
        """Hand over to the test until the next step."""
        if threading.current_thread() is not self._thread:
            return
        if not self._is_dead:
            self._waits_for = waits_for
            self._back.release()
            assert self._turn.acquire(timeout=_PATIENCE_SECONDS)
            self._waits_for = ""
        if self._is_dead:
            raise ProcessDied(method, path, is_now=True)

    @property
    def is_dead(self) -> bool:
        """Whether what runs now is only unwound."""
        return self._is_dead

    # ---- private ----------------------------------------------------------------------------------------------------

    def _continue(self) -> None:
        thread = self._thread
        assert thread is not None
        self._turn.release()
        assert self._back.acquire(timeout=_PATIENCE_SECONDS), "a program blocks, and not at the disk"
        if not self.is_busy:
            thread.join()

    def _run(self, work: Callable[[], object]) -> None:
        assert self._turn.acquire(timeout=_PATIENCE_SECONDS)
        try:
            self.result = work()
        except BaseException as failure:  # the test's thread judges it
            self.failure = failure
        self._thread = None
        self._back.release()


class _SteppedDisk:
    def __init__(self, program: Program, disk: SimDisk) -> None:
        self._program = program
        self._disk = disk
        self._locks: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._disk, name)

        def stepped(path: str, *others: Any) -> Any:
            self._program.halt(name, path)
            return call(path, *others)

        return stepped

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> _SteppedFile:
        self._program.halt("open", path)
        return _SteppedFile(self._program, self._disk.open(path, create=create, read_only=read_only))

    def create_private(self, path: str) -> _SteppedFile:
        self._program.halt("create_private", path)
        return _SteppedFile(self._program, self._disk.create_private(path))

    def wait_lock(self, path: str) -> _SteppedLock:
        self._program.halt("wait_lock", path, waits_for=path)
        self._locks[path] = self._disk.wait_lock(path)
        self._program.holders[path] = self._program
        return _SteppedLock(self._program, path)

    def free(self, path: str) -> None:
        self._locks.pop(path).release()
        del self._program.holders[path]


class _SteppedLock:
    def __init__(self, program: Program, path: str) -> None:
        self._program = program
        self._path = path

    def release(self) -> None:
        if not self._program.is_dead:
            self._program.halt("release", self._path)
            self._program.disk.free(self._path)


class _SteppedFile:
    def __init__(self, program: Program, file: Any) -> None:
        self.path = file.path
        self._program = program
        self._file = file

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._file, name)

        def stepped(*arguments: Any) -> Any:
            self._program.halt(name, self.path)
            return call(*arguments)

        return stepped

    def write(self, position: int, content: bytes) -> None:
        middle = len(content) // 2
        for begin, end in ((0, middle), (middle, len(content))):
            self._program.halt("write", self.path)
            self._file.write(position + begin, content[begin:end])

    def close(self) -> None:
        self._file.close()
