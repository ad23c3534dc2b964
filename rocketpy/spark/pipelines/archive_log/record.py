"""Record of one run of an archive: which messages it added, in which files. A JSON file of its own.

::

    {"version": 1, "run": 7, "id": "3f0c...", "time": "2026-01-31T12:00:00+00:00",
     "ranges":   [{"topic": "T", "broker_name": "broker-a", "queue_id": 0, "start": 0, "end": 1000}, ...],
     "files":    [{"path": "topic=T/date=2026-01-31/part-00000-....snappy.parquet", "rows": 1000}, ...],
     "replaced": ["topic=T/date=2026-01-30/part-00003-....snappy.parquet", ...]}

``replaced`` are files of earlier runs whose messages are in ``files`` now: a compaction. Times are those of the driver.

An archive may come from somebody else, and the next run moves and removes what its records name. So an id is one plain
name, and a path is that of a Parquet file of a topic, in the archive: any other record is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import attrs

from rocketpy.clock import Clock
from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, joined

VERSION = 1

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_PATH = re.compile(r"topic=[^/\0]*(/[^/\0._][^/\0]*)*/[^/\0._][^/\0]*\.parquet")


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
            id=_checked(_ID, fields["id"], "the id of a run, of letters, digits and dashes"),
            time=str(fields["time"]),
            ranges=tuple(OffsetRange(**each) for each in fields["ranges"]),
            files=tuple(ArchivedFile(_checked_path(each["path"]), each["rows"]) for each in fields["files"]),
            replaced=tuple(_checked_path(each) for each in fields["replaced"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"expected the record of a run of an archive, found something else: {error}", path=path
        ) from error


def _checked_path(path: object) -> str:
    return _checked(_PATH, path, "the path of a Parquet file in the archive, as topic=T/date=2026-01-31/NAME.parquet")


def _checked(pattern: re.Pattern[str], value: object, expected: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"expected {expected}, found {value!r}")
    return value
