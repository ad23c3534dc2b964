"""The summary of a pipeline, as lines and as JSON."""

from __future__ import annotations

import json

from rocketpy.clock import ManualClock
from rocketpy.spark.pipelines.summary import Summary, seconds_since

SUMMARY = Summary(
    pipeline="archive",
    read=10,
    written=7,
    skipped={"already archived": 3, "empty body": 0},
    seconds=2.0,
    details={"archive": "/a", "files": ["x", "y"], "topics": {"T": 7}},
)


def test_lines_have_the_figures_the_reasons_and_the_details() -> None:
    assert SUMMARY.lines() == [
        "archive: 10 read, 7 written, 3 skipped in 2.0 s (5/s)",
        "    skipped 3: already archived",
        "    archive: /a",
        "    files: x, y",
        "    topics: T 7",
    ]
    assert Summary(pipeline="audit", read=0).lines() == ["audit: 0 read, 0 written, 0 skipped in 0.0 s"]


def test_fields_are_json() -> None:
    fields = json.loads(json.dumps(SUMMARY.as_fields()))
    assert (fields["read"], fields["written"], fields["skipped"]["already archived"]) == (10, 7, 3)
    assert (fields["archive"], fields["topics"]) == ("/a", {"T": 7})


def test_a_run_has_taken_no_time_if_the_clock_was_set_back() -> None:
    clock = ManualClock(10_000)
    assert (seconds_since(8_500, clock), seconds_since(11_000, clock)) == (1.5, 0.0)
