"""The ready file: a file that exists exactly while a program serves, for scripts, test fixtures and probes.

It is removed when the program starts, appears whole once clients may connect, and is removed when the program has ended
in order, unless it is that of another program by then. After a kill it stays; its ``pid`` tells whether that process
still runs.

With ``-`` in place of a path the line goes to standard output, which then has nothing else: what a program says to
people goes to standard error. The end of the output is the end of the program.

The content is one JSON object on one line, its keys spelled as the settings are: ``pid``, ``role`` (``broker``,
``nameserver`` or ``cluster``), and what is said in docs/containers.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

from rocketpy.errors import StartError

STANDARD_OUTPUT = "-"


class ReadyFile:
    """The file at a path, a line on standard output for ``-``, or nothing at all without a path."""

    def __init__(self, path: str | None) -> None:
        self._owner = os.getpid()
        self._written = b""  # what the file has, if this process has written it; its id is in there
        self._is_output = path == STANDARD_OUTPUT
        self._path = None if self._is_output else path

    @property
    def output_for_people(self) -> TextIO:
        """Where a program prints what is not for programs."""
        return sys.stderr if self._is_output else sys.stdout

    @contextmanager
    def removed_around(self) -> Iterator[None]:
        """Remove the file before the block and after it; StartError if a file cannot be made there.

        A process that is forked in the block leaves the file to its parent.
        """
        if self._path is None:
            yield
            return
        self._remove()
        directory = os.path.dirname(self._path) or "."
        if not os.access(directory, os.W_OK | os.X_OK):
            raise StartError(f"--ready-file {self._path}: expected a directory that can be written, {directory} is not")
        try:
            yield
        finally:
            # The program that comes after this one may serve already, and have its own file there.
            if os.getpid() == self._owner and self._written and self._found() == self._written:
                self._remove()

    def write(self, content: Mapping[str, object]) -> None:
        """Let the file appear, whole, with this process's id added; StartError if that fails."""
        line = json.dumps({"pid": os.getpid(), **content})
        if self._is_output:
            print(line, flush=True)
        if self._path is None:
            return
        new = f"{self._path}.{os.getpid()}.new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(new)  # a link that somebody has put there is removed, and where it leads to is not written
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(new, flags, 0o666), "w", encoding="utf-8") as file:
                file.write(line + "\n")
            os.replace(new, self._path)
            self._written = f"{line}\n".encode()
        except OSError as failure:
            with suppress(OSError):
                os.unlink(new)
            raise StartError(f"--ready-file {self._path}: cannot be written: {failure.strerror}") from failure

    def _found(self) -> bytes:
        """Return the beginning of what is there; one byte more than this process has written."""
        assert self._path is not None
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        with open(descriptor, "rb") as file:
            return file.read(len(self._written) + 1)

    def _remove(self) -> None:
        assert self._path is not None
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        except OSError as failure:
            raise StartError(f"--ready-file {self._path}: cannot be removed: {failure.strerror}") from failure
