"""How many file descriptors an open store may hold, out of what the process may have.

Descriptors are a budget that the store shares with connections: when connections have taken all of them, no queue file
can be opened and sends are refused. So the program counts both together at its start. The store knows no connection;
it says what it needs (:attr:`DescriptorBudget.total`), and what is left is for listeners, connections, tables and logs.

In a process that may have few, files of queues and log get at most half of them. They are then opened more often.
"""

from __future__ import annotations

import attrs

from rocketpy.store.config import MessageStoreConfig

FIXED_COUNT = 32
"""What a store holds beside the files of queues and log: lock, index files with their mappings, files that are being
made or deleted, small files, directories under sync, queries of the index."""

OPEN_FILES_MIN = 16
"""So many files of queues and log may be open in any case."""

FILES_PER_FLUSH_MAX = 256
"""How many files one flush of queues may hold; a thorough flush is as many flushes as it takes."""


@attrs.frozen
class DescriptorBudget:
    """What the parts of one store may hold."""

    open_files_max: int
    """Files of queues and log with a descriptor. Only files in use may exceed it: such as cold reads hold."""

    files_per_flush_max: int = FILES_PER_FLUSH_MAX

    @property
    def total(self) -> int:
        """The whole store."""
        return self.open_files_max + FIXED_COUNT


def descriptor_budget(config: MessageStoreConfig, process_max: int | None = None) -> DescriptorBudget:
    """Return what a store may hold, by its settings, in a process that may have so many; None: as many as it wants."""
    open_files_max = config.consume_queue_files_open_max
    if process_max is not None:
        open_files_max = min(open_files_max, max(process_max // 2 - FIXED_COUNT, OPEN_FILES_MIN))
    return DescriptorBudget(open_files_max, min(FILES_PER_FLUSH_MAX, max(open_files_max // 2, 1)))
