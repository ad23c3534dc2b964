"""Up to which record of the log each table beside it is true, persisted in ``tableMarks.json``.

::

    {"tableMarks":{"consumerOffset.json":{"digest":"9f86...","offset":374,"size":187}}}

A table that stands for places in the log is written together with a mark (:mod:`rocketpy.store.ha.log_mark`), which is
on disk before the table. A start whose log has not the record that a mark names has lost what the table counts: the log
was cut, another one was put in its place, or a disk has lost what it said it had written. Rule: such a table is treated
as that of a log whose tail was cut (:mod:`rocketpy.broker.replication.promotion`).

A table without a mark was written by Java or by an older version, and counts for the log that it lies beside. So does
one that Java has written since: its log goes on from ours, and has the record.

Compatibility: RocketMQ (4.9.8) has no such file, and ignores it.
"""

from __future__ import annotations

import os.path
from collections.abc import Awaitable, Callable

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.ha.log_mark import LogMark, marks_in

_KEY = "tableMarks"


class TableMarks:
    """The marks of one broker's tables, by the names of their files."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self._marks: dict[str, LogMark] = {}
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Read the file into the empty table; StartError when file and backup are malformed."""
        self._marks = self.stored.load(lambda content, notes: marks_in(content, _KEY, notes)) or {}

    def marks(self) -> list[LogMark]:
        """Return all marks."""
        return list(self._marks.values())

    def mark_of(self, table: StoredTable) -> LogMark:
        """Return the mark of a table, that of the log's beginning if it has none."""
        return self._marks.get(os.path.basename(table.path), LogMark())

    async def note(self, table: StoredTable, mark: LogMark) -> None:
        """Set the mark of a table that is about to be written; durable on return."""
        name = os.path.basename(table.path)
        if self._marks.get(name) != mark:
            self._marks[name] = mark
            self.stored.changed()
        await self.stored.persist()

    def before_write(
        self, table: StoredTable, mark_now: Callable[[], Awaitable[LogMark]], flush_log: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Return what is to be done before a table is written: its mark, of a log that is durable, comes first."""

        async def note_mark() -> None:
            mark = await mark_now()
            await flush_log()
            await self.note(table, mark)

        return note_mark

    def _snapshot(self) -> object:
        return {_KEY: {name: mark.as_json() for name, mark in sorted(self._marks.items())}}
