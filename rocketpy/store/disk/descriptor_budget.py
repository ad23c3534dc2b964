"""The store's share of the process's file descriptors.

The store shares this budget with connections: when connections have taken all descriptors, no queue file can be opened
and sends are refused. So the program adds up both at its start. The store knows nothing of connections; it states its
own need (:attr:`DescriptorBudget.total`), and the rest is for listeners, connections, tables and log files.

Under a low process limit, the files of queues and log get at most half of it, and are closed and reopened more often.
"""

from __future__ import annotations

import attrs

from rocketpy.store.config import MessageStoreConfig

FIXED_COUNT = 32
"""Descriptors besides the files of queues and log: lock, index files with their mappings, files being created or
deleted, small files, directories during a sync, queries of the index."""

OPEN_FILES_MIN = 16
"""Minimum of open files of queues and log, however low the process limit."""

FILES_PER_FLUSH_MAX = 256
"""Limit of the files that one flush of queues holds; a thorough flush is split into as many flushes as needed."""


@attrs.frozen
class DescriptorBudget:
    """Descriptor limits of one store."""

    open_files_max: int
    """Files of queues and log with a descriptor. Only files in use, for example by cold reads, may exceed it."""

    files_per_flush_max: int = FILES_PER_FLUSH_MAX

    @property
    def total(self) -> int:
        """The whole store."""
        return self.open_files_max + FIXED_COUNT


def descriptor_budget(config: MessageStoreConfig, process_max: int | None = None) -> DescriptorBudget:
    """Return the budget for a configuration and a process limit; None stands for no limit."""
    open_files_max = config.consume_queue_files_open_max
    if process_max is not None:
        open_files_max = min(open_files_max, max(process_max // 2 - FIXED_COUNT, OPEN_FILES_MIN))
    return DescriptorBudget(open_files_max, min(FILES_PER_FLUSH_MAX, max(open_files_max // 2, 1)))
