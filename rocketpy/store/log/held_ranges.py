"""Ranges of the CommitLog that a worker thread works on, with the files that it needs held open.

They are not compiled with the CommitLog: the runner of blocking calls shows the name of the method that it runs, which
a compiled method does not have.
"""

from __future__ import annotations

import attrs

from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import MappedFile


@attrs.define(eq=False)
class FlushRange:
    """The range that one flush makes durable: everything up to ``end_offset``, stored no later than the timestamp."""

    end_offset: int
    store_timestamp_ms: int
    files: tuple[tuple[MappedFile, DiskFile], ...]  # held until end_flush

    def sync(self) -> None:
        """Sync the files. Blocks: call it in a worker thread. StoreError is final, the store must stop."""
        for _, file in self.files:
            file.sync()


@attrs.frozen(eq=False)
class AheadRange:
    """Reserved space of the last file that is not written yet, held until ``release``."""

    position: int
    size: int
    _mapped_file: MappedFile
    _file: DiskFile

    def warm(self) -> float:
        """Bring it into the page cache, see :meth:`DiskFile.warm`. Blocks: call it in a worker thread."""
        return self._file.warm(self.position, self.size)

    def release(self) -> None:
        """Let the file be closed."""
        self._mapped_file.release()
