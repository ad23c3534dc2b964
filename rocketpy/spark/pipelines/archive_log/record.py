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

import attrs

from rocketpy.clock import Clock
from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.json_fields import INT32_MAX, JsonFields, read_fields
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, joined

VERSION = 1

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_PATH = re.compile(r"topic=[^/\0]*(/[^/\0._][^/\0]*)*/[^/\0._][^/\0]*\.parquet")
_PATH_EXPECTED = "the path of a Parquet file in the archive, as topic=T/date=2026-01-31/NAME.parquet"
_FIELDS = ("version", "run", "id", "time", "ranges", "files", "replaced")
_RANGE_FIELDS = ("topic", "broker_name", "queue_id", "start", "end")
_FILE_FIELDS = ("path", "rows")


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
    fields = read_fields(content, path, "the record of a run of an archive")
    version = fields.number("version", 1)
    if version != VERSION:
        raise StoreError(f"expected a record of version {VERSION}, found version {version}", path=path)
    fields.expect_only(_FIELDS)
    return RunRecord(
        run=fields.number("run", 1),
        id=fields.matching("id", _ID, "the id of a run, of letters, digits and dashes"),
        time=fields.time("time"),
        ranges=fields.objects("ranges", _read_range),
        files=fields.objects("files", _read_file),
        replaced=fields.texts("replaced", _PATH, _PATH_EXPECTED),
    )


def _read_range(fields: JsonFields) -> OffsetRange:
    fields.expect_only(_RANGE_FIELDS)
    start = fields.number("start")
    return OffsetRange(
        topic=fields.name("topic"),
        broker_name=fields.text("broker_name"),
        queue_id=fields.number("queue_id", most=INT32_MAX),
        start=start,
        end=fields.number("end", start + 1),
    )


def _read_file(fields: JsonFields) -> ArchivedFile:
    fields.expect_only(_FILE_FIELDS)
    return ArchivedFile(fields.matching("path", _PATH, _PATH_EXPECTED), fields.number("rows"))
