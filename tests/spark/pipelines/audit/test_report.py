"""A report in words: what was found by kind, the first findings, and how many more there are."""

from __future__ import annotations

import attrs

from rocketpy.spark.pipelines.audit.report import AuditReport, KindCount, described, ordered

ROW = {
    "kind": "recordWithoutUnit",
    "severity": "error",
    "topic": "T",
    "queue_id": 0,
    "queue_offset": 7,
    "physical_offset": None,
    "consumer_group": None,
    "expected": "a unit",
    "found": "none",
    "messages": 1,
    "since": None,
}
REPORT = AuditReport(
    path="/store",
    is_live=False,
    at="2026-01-01T00:00:00+00:00",
    messages=10,
    units=9,
    index_entries=0,
    groups=1,
    kinds=(KindCount(kind="recordWithoutUnit", severity="error", findings=3, messages=3),),
    listed=(ROW,),
    written=3,
    skipped={"appended after the audit began": 2, "other": 0},
    seconds=1.0,
)


def test_a_report_lists_findings_below_their_kind_and_counts_the_rest() -> None:
    assert REPORT.lines() == [
        "audit of /store (not open): 10 messages, 9 units, 0 index entries, 1 groups of topics",
        "error: recordWithoutUnit: 3 (3 messages): in the log and not in the queue: no consumer gets this message",
        "    topic T, queue 0, queue offset 7: expected a unit, found none",
        "    and 2 more",
        "audit: 10 read, 3 written, 2 skipped in 1.0 s (10/s)",
        "    skipped 2: appended after the audit began",
    ]
    assert (REPORT.has_errors, REPORT.is_clean, REPORT.count("recordWithoutUnit")) == (True, False, 3)


def test_a_report_without_findings_says_so_and_notices_do_not_count() -> None:
    clean = attrs.evolve(REPORT, kinds=(), listed=())
    assert clean.lines()[1:2] == ["nothing found"]
    noticed = attrs.evolve(clean, kinds=(KindCount(kind="dispatchBehind", severity="notice", findings=1, messages=1),))
    assert noticed.is_clean


def test_a_finding_without_a_place_is_about_the_store() -> None:
    row = dict.fromkeys(ROW) | {"expected": "a JSON table", "found": "x.json: no JSON"}
    assert described(row) == "store: expected a JSON table, found x.json: no JSON"


def test_kinds_are_in_the_order_of_the_table() -> None:
    later = KindCount(kind="neverConsumed", severity="notice", findings=1, messages=1)
    assert ordered([later, *REPORT.kinds]) == (*REPORT.kinds, later)
