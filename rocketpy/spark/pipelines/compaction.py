"""Compaction of an archive: the small files of each topic and date become few, and the messages stay the same.

A run that adds little leaves a small file for each task, topic and date. A compaction is a run as any other in the log
(:mod:`rocketpy.spark.pipelines.archive_log.log`): it writes files aside, and its record names them and those that they
replace. Killed before the record it has done nothing; killed after it, the next run completes it.

Rule: :func:`~rocketpy.spark.pipelines.archive.read_archive` finds each message once at any moment. A reader of the
plain directories finds those of both files while the old ones are removed, and a query that has planned to read old
files fails when they are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from rocketpy.clock import Clock, SystemClock
from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive import PARTITION_COLUMNS, read_files, staged_record
from rocketpy.spark.pipelines.archive_log.opening import open_archive_log
from rocketpy.spark.pipelines.archive_log.record import ArchivedFile, RunRecord
from rocketpy.spark.pipelines.summary import Summary, seconds_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_FILE = 1_000_000
ALONE = "in files that are large, or alone in their directory"


def compact(
    spark: SparkSession, path: str, *, rows_per_file: int = ROWS_PER_FILE, clock: Clock | None = None
) -> Summary:
    """Merge files of fewer than half of ``rows_per_file`` messages into files of up to that number, by directory.

    One task writes the files of a topic and date, by broker, queue and offset. Durable when it returns; the summary
    counts the messages that were read and written again. ``StartError`` if another run is writing, ``StoreError`` if
    the archive's files have not the messages that its record says.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    log = open_archive_log(spark, path, clock=clock)
    with log.opened_for_writing() as state:
        small = small_files(state.files, rows_per_file)

        def stage(run_id: str) -> RunRecord:
            messages = read_files(spark, log.root, [file.path for file in small])
            rows = messages.repartition(*PARTITION_COLUMNS).sortWithinPartitions(
                *PARTITION_COLUMNS, "broker_name", "queue_id", "queue_offset"
            )
            files = rows.write.partitionBy(*PARTITION_COLUMNS).option("maxRecordsPerFile", rows_per_file)
            files.parquet(log.staging(run_id))
            staged = staged_record(spark, log, state, run_id, clock)
            _check(small, 0 if staged is None else staged.row_count, log.root)
            assert staged is not None, "a file of an archive has messages"
            return attrs.evolve(staged, ranges=(), replaced=tuple(file.path for file in small))

        record = log.add_run(stage) if small else None
    written = sum(file.rows for file in small)
    return Summary(
        pipeline="archive",
        read=written,
        written=written,
        skipped={ALONE: sum(file.rows for file in state.files) - written},
        seconds=seconds_since(begin_ms, clock),
        details={
            "archive": log.root,
            "run": record.run if record else None,
            "files": len(record.files) if record else 0,
            "replaced": len(small),
        },
    )


def small_files(files: Iterable[ArchivedFile], rows_per_file: int) -> list[ArchivedFile]:
    """Return the files that a compaction merges: those of directories that have two or more small ones."""
    directories: dict[str, list[ArchivedFile]] = defaultdict(list)
    for file in files:
        if 2 * file.rows < rows_per_file:
            directories[file.path.rpartition("/")[0]].append(file)
    return [file for _, small in sorted(directories.items()) if len(small) > 1 for file in small]


def _check(small: Iterable[ArchivedFile], found: int, root: str) -> None:
    expected = sum(file.rows for file in small)
    if found != expected:
        raise StoreError(
            f"expected {expected} messages in the files to be merged, as the runs say, found {found}", path=root
        )
