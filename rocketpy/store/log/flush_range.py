"""A range of the CommitLog that one flush makes durable."""

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
