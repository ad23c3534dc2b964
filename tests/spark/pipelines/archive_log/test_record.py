"""Records of runs: round trip, what they sum up to, files that are none."""

from __future__ import annotations

import json

import pytest

from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.archive_log.record import (
    ArchivedFile,
    ArchiveState,
    RunRecord,
    decode_record,
    encode_record,
    state_of,
)

C, D = "topic=T/date=2026-01-31/c.parquet", "topic=%25RETRY%25g/date=2026-02-01/d.parquet"

TIME = "2026-01-31T12:00:00+00:00"
RECORD = RunRecord(
    run=1,
    id="x",
    time=TIME,
    ranges=(OffsetRange("T", "b", 0, 0, 10),),
    files=(ArchivedFile("topic=T/a.parquet", 4), ArchivedFile("topic=T/b.parquet", 6)),
)
LATER = RunRecord(run=2, id="y", time=TIME, ranges=(OffsetRange("T", "b", 0, 10, 12),), files=(ArchivedFile(C, 2),))
COMPACTED = RunRecord(run=3, id="z", time=TIME, files=(ArchivedFile(D, 6),), replaced=("topic=T/a.parquet", C))


def test_a_record_survives_its_file() -> None:
    assert decode_record(encode_record(RECORD), "/r") == RECORD
    assert decode_record(encode_record(COMPACTED), "/r") == COMPACTED
    assert RECORD.row_count == 10


def test_records_sum_up_to_the_archive() -> None:
    assert state_of([]) == ArchiveState()
    assert state_of([RECORD, LATER, COMPACTED]) == ArchiveState(
        3,
        (OffsetRange("T", "b", 0, 0, 12),),
        (ArchivedFile("topic=T/b.parquet", 6), ArchivedFile(D, 6)),
    )


def test_a_file_that_is_no_record_is_an_error_that_names_it() -> None:
    whole = encode_record(RECORD)
    for end in range(len(whole) - 2):
        with pytest.raises(StoreError, match=r"expected the record .*\(/r\)"):
            decode_record(whole[:end], "/r")
    for content in (b"[]", b"\xff", b'{"version": 1}', whole.replace(b'"start": 0', b'"start": 10')):
        with pytest.raises(StoreError, match=r"\(/r\)"):
            decode_record(content, "/r")


def test_a_record_of_a_later_version_is_refused() -> None:
    later = json.loads(encode_record(RECORD)) | {"version": 2}
    with pytest.raises(StoreError, match="version 1, found version 2"):
        decode_record(json.dumps(later).encode(), "/r")


@pytest.mark.parametrize(
    "path",
    [
        "../outside/a.parquet",
        "/outside/a.parquet",
        "topic=T/../../outside/a.parquet",
        "topic=T//outside/a.parquet",
        "topic=T/./a.parquet",
        "topic=T/_archive/a.parquet",
        "_archive/runs/00000000000000000001.json",
        "topic=T/date=2026-01-31",
        "topic=T/a.parquet/",
        "topic=T/a.parquet\n",
        "topic=T/a\0.parquet",
        "",
        7,
    ],
)
def test_a_record_that_leads_out_of_the_archive_is_refused(path: object) -> None:
    fields = json.loads(encode_record(RECORD))
    for changed in ({"files": [{"path": path, "rows": 1}]}, {"replaced": [path]}):
        with pytest.raises(StoreError, match=r"expected the path of a Parquet file in the archive, .* \(/r\)"):
            decode_record(json.dumps(fields | changed).encode(), "/r")


@pytest.mark.parametrize("run_id", ["", ".", "..", "../victim", "a/b", "/", 7, None])
def test_a_record_whose_id_is_no_plain_name_is_refused(run_id: object) -> None:
    fields = json.loads(encode_record(RECORD)) | {"id": run_id}
    with pytest.raises(StoreError, match=r"expected the id of a run, .* \(/r\)"):
        decode_record(json.dumps(fields).encode(), "/r")
