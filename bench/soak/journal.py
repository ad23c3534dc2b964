"""What members of a soak write down: one line for each event, in a file that outlives a SIGKILL of its writer.

- Producers: ``ack TOPIC SENDER SEQUENCE`` and ``fail TOPIC SENDER SEQUENCE ERROR``.
- Producers of transactions: ``begin SENDER SEQUENCE`` once the half message is stored, ``undone SENDER SEQUENCE`` if it
  is not known to be, and ``quiet SENDER`` after the last.
- Consumers, before they acknowledge: ``got TOPIC SENDER SEQUENCE NANOSECONDS BROKER QUEUE OFFSET``. The clock is the
  machine's, so that the lines of several processes can be ordered.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs


class Journal:
    """The file of one member; each line is written by one system call."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, *fields: object) -> None:
        """Write one line."""
        os.write(self._descriptor, (" ".join(map(str, fields)) + "\n").encode())


@attrs.define(eq=False)
class JournalReader:
    """Reads a file that grows, each line once."""

    path: Path
    _position: int = 0

    def size(self) -> int | None:
        """Return how many bytes there are, None before its writer has opened it."""
        return self.path.stat().st_size if self.path.exists() else None

    def read_on(self) -> list[list[str]]:
        """Return the fields of the lines since the last call; a line that is not complete comes later."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        end = text.rfind(b"\n") + 1
        self._position += end
        return [line.split(" ") for line in text[:end].decode().splitlines()]
