"""Log against the key index: for each key of a record the entry that finds it, for each entry the record with its key.

A file of the index ends before the log does when the broker was killed, and it may begin after the log does when it was
built again from a checkpoint. Messages outside what the entries cover are a notice for each queue, not a finding each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.spark.pipelines.audit.expected import expected_keys
from rocketpy.spark.pipelines.audit.findings import classified_findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = ["physical_offset", "key_hash"]


def log_against_index(
    messages: DataFrame, entries: DataFrame, *, log_min_offset: int = 0, log_end_offset: int | None = None
) -> DataFrame:
    """Return findings about entries without records, and keys that a query does not find.

    ``entries`` has the columns of :func:`~rocketpy.spark.pipelines.audit.index_entries.index_entries`; without any
    there is no index, and no finding. Entries of records before ``log_min_offset`` are left out, with
    ``log_end_offset`` also what lies after.
    """
    col = F.col
    inside = col("physical_offset") >= log_min_offset
    if log_end_offset is not None:
        inside &= col("physical_offset") < log_end_offset
    first = F.min(F.struct("file", "entry"))
    found = (
        entries.where(inside)
        .groupBy(*_KEY)
        .agg(F.max("is_reachable").alias("is_reachable"), first.alias("first"))
        .select(*_KEY, "is_reachable", "first.*")
    )
    covered = entries.agg(F.min("physical_offset").alias("first_entry"), F.max("physical_offset").alias("last_entry"))
    rows = (
        expected_keys(messages.where(inside))
        .join(found, _KEY, "full_outer")
        .crossJoin(F.broadcast(covered))
        .where(col("last_entry").isNotNull())
    )
    is_missing = col("key").isNotNull() & col("is_due") & ~F.coalesce("is_reachable", F.lit(False))
    is_covered = col("physical_offset").between(col("first_entry"), col("last_entry"))
    entry = F.format_string("entry %d of %s", "entry", "file")
    return classified_findings(
        rows,
        {
            "indexEntryWithoutRecord": (
                col("key").isNull(),
                F.format_string("a record with a key of hash %d", "key_hash"),
                F.concat(F.lit("none there; it is "), entry),
            ),
            "keyNotInIndex": (
                is_missing & is_covered,
                F.format_string("an entry for the key %s", "key"),
                F.when(col("entry").isNull(), "none").otherwise(F.concat(entry, F.lit(", which no chain leads to"))),
            ),
            "notIndexed": (
                is_missing & ~is_covered,
                "entries for the keys of all messages",
                "none: they are before the first or after the last entry of the index",
            ),
        },
        grouped=("notIndexed",),
    )
