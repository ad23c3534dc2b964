"""Record of one run of an archive: which messages it added, in which files. A JSON file of its own.

::

    {"version": 1, "run": 7, "id": "3f0c...", "time": "2026-01-31T12:00:00+00:00",
     "ranges":   [{"topic": "T", "broker_name": "broker-a", "queue_id": 0, "start": 0, "end": 1000}, ...],
     "files":    [{"path": "topic=T/date=2026-01-31/part-00000-....snappy.parquet", "rows": 1000}, ...],
     "replaced": ["topic=T/date=2026-01-30/part-00003-....snappy.parquet", ...]}

``replaced`` are files of earlier runs whose messages are in ``files`` now: a compaction. Times are those of the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import attrs

from rocketpy.clock import Clock
from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, joined

VERSION = 1


@attrs.frozen
class ArchivedFile:
    """A Parquet file, by its path in the archive."""

    path: str
    rows: int


@attrs.frozen(kw_only=True)
class RunRecord:
    """What one run did. ``id`` names its staging directory."""

    run: int
    id: str
    time: str
    ranges: tuple[OffsetRange, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    replaced: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        """Return how many messages its files have."""
        return sum(file.rows for file in self.files)


@attrs.frozen
class ArchiveState:
    """What all records together say: the archive as it is after the last run."""

    last_run: int = 0
    ranges: tuple[OffsetRange, ...] = ()
    files: tuple[ArchivedFile, ...] = ()

    def next_record(
        self, run_id: str, clock: Clock, *, ranges: tuple[OffsetRange, ...], files: tuple[ArchivedFile, ...] = ()
    ) -> RunRecord:
        """Return the record of the run after the last one, at the clock's time."""
        now = datetime.fromtimestamp(clock.timestamp_ms() / 1000, UTC).isoformat()
        return RunRecord(run=self.last_run + 1, id=run_id, time=now, ranges=ranges, files=files)


def state_of(records: Iterable[RunRecord]) -> ArchiveState:
    """Return the state after these records, which are in the order of their runs."""
    files: dict[str, ArchivedFile] = {}
    ranges: list[OffsetRange] = []
    last_run = 0
    for record in records:
        for path in record.replaced:
            files.pop(path, None)
        files |= {file.path: file for file in record.files}
        ranges += record.ranges
        last_run = record.run
    return ArchiveState(last_run, joined(ranges), tuple(files.values()))


def encode_record(record: RunRecord) -> bytes:
    """Return the content of the record's file."""
    return json.dumps({"version": VERSION} | attrs.asdict(record), indent=1).encode() + b"\n"


def decode_record(content: bytes, path: str) -> RunRecord:
    """Return the record in a file; ``StoreError`` if it is not one, or of a later version."""
    try:
        fields: dict[str, Any] = json.loads(content)
        version = fields.pop("version")
        if version != VERSION:
            raise StoreError(f"expected a record of version {VERSION}, found version {version}", path=path)
        return RunRecord(
            run=int(fields["run"]),
            id=str(fields["id"]),
            time=str(fields["time"]),
            ranges=tuple(OffsetRange(**each) for each in fields["ranges"]),
            files=tuple(ArchivedFile(**each) for each in fields["files"]),
            replaced=tuple(fields["replaced"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"expected the record of a run of an archive, found something else: {error}", path=path
        ) from error
