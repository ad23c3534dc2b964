"""Findings of an audit as rows: one schema, and one table of the kinds with their severity and meaning.

Severities are those of ``rocketpy store verify``: an *error* is a message that is lost, wrong or out of reach, a
*warning* needs a person although every message is there, a *notice* is a fact that a healthy store may have too.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.store.inspection.verify.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

ERROR, WARNING, NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE


@attrs.frozen
class Kind:
    """One kind of finding."""

    name: str
    severity: Severity
    meaning: str


KINDS = (
    Kind("damagedLog", ERROR, "bytes of the log that are no record, or a record whose body does not fit its checksum"),
    Kind("unitWithoutRecord", ERROR, "in the queue and not in the log: no record of this queue at the unit's offset"),
    Kind("recordWithoutUnit", ERROR, "in the log and not in the queue: no consumer gets this message"),
    Kind(
        "unitOfOtherRecord",
        ERROR,
        "the unit at a record's queue offset points elsewhere, or two records have the offset",
    ),
    Kind("unitOfWrongSize", ERROR, "the unit's size is not that of its record"),
    Kind("unitOfWrongTag", WARNING, "the unit's tag code is not that of its record: consumers that filter miss it"),
    Kind("queueGap", ERROR, "queue offsets between others that have neither a unit nor a record"),
    Kind("dispatchBehind", NOTICE, "records at the end of the log that have no units yet; the next start adds them"),
    Kind("deletedWithTopic", NOTICE, "records of a topic that was deleted, or from before it was created again"),
    Kind("indexEntryWithoutRecord", WARNING, "an index entry that points to no record with its key"),
    Kind("keyNotInIndex", WARNING, "a query by this key does not find the message"),
    Kind("notIndexed", NOTICE, "messages from before the first or after the last entry of the index"),
    Kind("indexFileUnreadable", WARNING, "an index file whose slots and entries do not fit its size"),
    Kind("tableUnreadable", ERROR, "a table of the broker that is malformed, as is its .bak"),
    Kind("neverConsumed", NOTICE, "acknowledged messages above a group's offset: not consumed yet, `since` the oldest"),
    Kind("topicWithoutGroup", NOTICE, "messages of a topic from which no group has consumed"),
    Kind("lostBeforeConsumed", ERROR, "a group's offset is below the queue's first message: those between are gone"),
    Kind("offsetPastEnd", ERROR, "a group's offset is above the queue's end: it misses what is sent next"),
    Kind("deadLetter", WARNING, "messages that a group gave up, by topic and cause"),
    Kind("openTransaction", WARNING, "a half message that was neither committed nor rolled back nor given up"),
    Kind("overdueDelay", WARNING, "delayed messages whose time had come, and that were not delivered"),
    Kind("notInArchive", ERROR, "in the log, not in the archive, although the archive has later ones of the queue"),
    Kind("archiveBehind", NOTICE, "messages of a queue after the last one that the archive has"),
    Kind("onlyInArchive", ERROR, "in the archive, not in the log, although the log has earlier ones of the queue"),
    Kind("expiredFromLog", NOTICE, "messages of a queue that the archive still has, from before the log begins"),
    Kind("differsFromArchive", ERROR, "log and archive have another message at this queue offset"),
    Kind("doubleInArchive", ERROR, "the archive has the message more than once"),
)
"""All kinds, in the order of a report."""

FINDING_SCHEMA = (
    "kind string, severity string, topic string, queue_id int, queue_offset bigint, physical_offset bigint, "
    "consumer_group string, expected string, found string, messages bigint, since timestamp"
)
"""``messages``: how many a finding is about. ``since``: when the (oldest) message was stored, where that is known."""

_NAMES = [field.split()[0] for field in FINDING_SCHEMA.split(", ")]
_KIND_OF = {kind.name: kind for kind in KINDS}
_PLACES = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "physical_offset": "bigint",
    "consumer_group": "string",
    "messages": "bigint",
    "since": "timestamp",
}


def documentation() -> str:
    """Return the kinds as the table of ``docs/spark.md``."""
    rows = [f"| `{kind.name}` | {kind.severity.value} | {kind.meaning} |\n" for kind in KINDS]
    return "| finding | severity | meaning |\n|---|---|---|\n" + "".join(rows)


def severity_of(kind: str) -> Severity:
    """Return the severity of a kind."""
    return _KIND_OF[kind].severity


def findings_of(rows: DataFrame, kind: str, *, expected: Column | str, found: Column | str) -> DataFrame:
    """Return a finding for each row, with the columns of ``FINDING_SCHEMA``.

    Where the message is comes from the rows' columns of the same names; a column that is missing is null, and
    ``messages`` then is 1. ``expected`` and ``found`` are expressions, or texts that are the same for all rows.
    """
    return classified_findings(rows, {kind: (None, expected, found)})


def classified_findings(
    rows: DataFrame, cases: Mapping[str, tuple[Column | None, Column | str, Column | str]], grouped: Sequence[str] = ()
) -> DataFrame:
    """Return the findings of each row, in one pass over the rows: they may be the result of a costly join.

    ``cases``: for each kind its condition (None: every row), what is expected, and what is found. Of the ``grouped``
    kinds there is one finding for each queue, with the number of messages and the first one's place.
    """

    def place(name: str) -> Column:
        if name in rows.columns:
            return F.col(name).cast(_PLACES[name]).alias(name)
        return F.lit(1 if name == "messages" else None).cast(_PLACES[name]).alias(name)

    def text(value: Column | str, name: str) -> Column:
        return (F.lit(value) if isinstance(value, str) else value).cast("string").alias(name)

    candidates = []
    for kind, (condition, expected, found) in cases.items():
        finding = F.struct(
            F.lit(kind).alias("kind"),
            F.lit(severity_of(kind).value).alias("severity"),
            text(expected, "expected"),
            text(found, "found"),
        )
        candidates.append(finding if condition is None else F.when(condition, finding))
    single = rows.select(
        *[place(name) for name in _PLACES], F.explode(F.array_compact(F.array(*candidates))).alias("is")
    )
    findings = single.select("is.*", *_PLACES).select(*_NAMES)
    if not grouped:
        return findings
    # Only findings are shuffled here. A key that is null for the others would be one huge group.
    is_grouped = F.col("kind").isin(list(grouped))
    number = F.when(~is_grouped, F.monotonically_increasing_id())
    return (
        findings.withColumn("number", number)
        .groupBy("number", "kind", "severity", "topic", "queue_id", "consumer_group")
        .agg(
            F.min("queue_offset").alias("queue_offset"),
            F.min("physical_offset").alias("physical_offset"),
            F.first("expected").alias("expected"),
            F.first("found").alias("found"),
            F.sum("messages").alias("messages"),
            F.min("since").alias("since"),
        )
        .select(*_NAMES)
    )


def union_of(findings: Iterable[DataFrame]) -> DataFrame:
    """Return all findings of several DataFrames; at least one."""
    from pyspark.sql import DataFrame

    return reduce(DataFrame.unionByName, findings)
