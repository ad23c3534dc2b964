"""The log of an archive: which runs there were, and how a run becomes part of the archive.

::

    ARCHIVE/topic=T/date=2026-01-31/part-....parquet      what everybody may read
    ARCHIVE/_archive/runs/00000000000000000007.json       a record for each run, never changed
    ARCHIVE/_archive/staging/ID/topic=T/date=.../part-... what a run has written that has not ended
    ARCHIVE/_archive/announced/ID                         a run that appends to a table, until it has ended
    ARCHIVE/_archive/lock                                 held while a run writes (local file systems)

A run writes its files into its staging directory, then its record, then renames the files into place. The record is the
commit: a run that died before it left only files in staging, which the next run removes; one that died after it left
files that the next run moves into place. Spark, pandas and DuckDB ignore names that begin with an underscore, so a
reader of the plain directories never sees a file of a run that did not commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rocketpy.errors import SettingsError, StartError, StoreError
from rocketpy.spark.pipelines.archive_log.file_system import FileSystem
from rocketpy.spark.pipelines.archive_log.record import (
    ArchivedFile,
    ArchiveState,
    RunRecord,
    decode_record,
    encode_record,
    state_of,
)

LOG_DIRECTORY = "_archive"
RUN_DIGITS = 20
PARQUET_SUFFIX = ".parquet"


class ArchiveLog:
    """The records of one archive, and its staging directories. It knows no Spark."""

    def __init__(self, root: str, *, files: FileSystem) -> None:
        self._root = root.rstrip("/")
        self._files = files

    @property
    def root(self) -> str:
        """Return the directory of the archive."""
        return self._root

    def records(self) -> list[RunRecord]:
        """Return the records of all runs in their order; ``StoreError`` for a file that is none."""
        names = [name for name in self._files.list_names(self._runs) if name.endswith(".json") and name[0] != "."]
        return [self._record(f"{self._runs}/{name}") for name in names]

    def state(self, as_of: int | datetime | None = None) -> ArchiveState:
        """Return what the archive has, or had after a run, given by its number or as the last one until a time.

        ``SettingsError`` for a run that has not been.
        """
        records = self.records()
        if isinstance(as_of, datetime):
            records = [record for record in records if datetime.fromisoformat(record.time) <= as_of]
        elif as_of is not None:
            numbers = [record.run for record in records]
            if as_of not in numbers:
                known = f"{numbers[0]} to {numbers[-1]}" if numbers else "no run"
                raise SettingsError(f"{self._root}: expected a run of the archive, which has {known}, found {as_of}")
            records = [record for record in records if record.run <= as_of]
        return state_of(records)

    @contextmanager
    def opened_for_writing(self) -> Iterator[ArchiveState]:
        """Hold the lock for the block, and finish or remove what earlier runs have left. ``StartError`` if locked."""
        with self._files.locked(f"{self._root}/{LOG_DIRECTORY}/lock"):
            records = self.records()
            self._finish(records)
            yield state_of(records)

    def add_run(self, stage: Callable[[str], RunRecord | None]) -> RunRecord | None:
        """Add a run to the archive, whole or not at all; return its record.

        ``stage`` writes its files, given the id, and returns the record; None if there is nothing to commit. Then, and
        if it fails, nothing stays of what it has written.
        """
        run_id = str(uuid.uuid4())
        record: RunRecord | None = None
        try:
            record = stage(run_id)
        finally:
            if record is None:
                self.discard(run_id)
        if record is not None:
            self.commit(record)  # if this fails, the files may be part of the archive already
        return record

    def staging(self, run_id: str) -> str:
        """Return the directory into which the run with this id writes."""
        return f"{self._root}/{LOG_DIRECTORY}/staging/{run_id}"

    def staged_files(self, run_id: str) -> list[str]:
        """Return the Parquet files that a run has written, by their paths in the archive."""
        return [
            path
            for path in self._files.walk(self.staging(run_id))
            if path.endswith(PARQUET_SUFFIX) and not any(part[0] in "._" for part in path.split("/"))
        ]

    def commit(self, record: RunRecord) -> None:
        """Make the staged files of a run part of the archive. Durable when this returns.

        ``StartError`` if another run has taken its number; the staged files are removed then.
        """
        staging = self.staging(record.id)
        self._files.sync(f"{staging}/{file.path}" for file in record.files)
        try:
            self._files.create(self._record_path(record.run), encode_record(record))
        except FileExistsError:
            self._files.remove(staging)
            raise StartError(
                f"another run was archiving to {self._root} and has committed run {record.run}: start this one again"
            ) from None
        self._publish(record)

    def discard(self, run_id: str) -> None:
        """Remove what a run has staged."""
        self._files.remove(self.staging(run_id))

    def paths(self, files: Iterable[ArchivedFile]) -> dict[str, list[str]]:
        """Return the paths of files of the archive by the directory under which each is at the moment."""
        staged = {
            path: self.staging(run_id)
            for run_id in self._files.list_names(f"{self._root}/{LOG_DIRECTORY}/staging")
            for path in self.staged_files(run_id)
        }
        found: dict[str, list[str]] = {}
        for file in files:
            found.setdefault(staged.get(file.path, self._root), []).append(file.path)
        return found

    def announce(self, run_id: str) -> None:
        """Note that a run is about to append to a table: if it dies, the next run asks the table what became of it."""
        self._files.create(f"{self._announced}/{run_id}", b"")

    def announced(self) -> list[str]:
        """Return the runs that were announced and are not known to have ended."""
        return [name for name in self._files.list_names(self._announced) if name[0] != "."]

    def withdraw(self, run_id: str) -> None:
        """Note that a run that was announced has ended, committed or not."""
        self._files.remove(f"{self._announced}/{run_id}")

    @property
    def _announced(self) -> str:
        return f"{self._root}/{LOG_DIRECTORY}/announced"

    @property
    def _runs(self) -> str:
        return f"{self._root}/{LOG_DIRECTORY}/runs"

    def _record(self, path: str) -> RunRecord:
        record = decode_record(self._files.read(path), path)
        # The runs are in the order of their names, and the next one gets the next number.
        if path != self._record_path(record.run):
            raise StoreError(f"expected the record of the run that its name says, found run {record.run}", path=path)
        return record

    def _record_path(self, run: int) -> str:
        return f"{self._runs}/{run:0{RUN_DIGITS}}.json"

    def _finish(self, records: list[RunRecord]) -> None:
        """Complete the runs that have a record, and remove the files of those that have none."""
        committed = {record.id: record for record in records}
        for run_id in self._files.list_names(f"{self._root}/{LOG_DIRECTORY}/staging"):
            if run_id in committed:
                self._publish(committed[run_id])
            elif self._files.is_abandoned(self.staging(run_id)):
                self.discard(run_id)

    def _publish(self, record: RunRecord) -> None:
        """Move the files of a run into place; may be repeated. The staging directory goes last: it says what is left to
        do."""
        for file in record.files:
            self._files.move(f"{self.staging(record.id)}/{file.path}", f"{self._root}/{file.path}")
        for path in record.replaced:
            self._files.remove(f"{self._root}/{path}")
        self.discard(record.id)
