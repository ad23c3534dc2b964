"""Runs of both builds are counted apart, and a run that is not of the build that it claims to be ends at once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpy import BUILD
from rocketpy.compiled import Build
from tests import build_counts
from tests.build_counts import BuildCounts, register, table


def report(when: str, outcome: str) -> Any:
    return SimpleNamespace(when=when, outcome=outcome, passed=outcome == "passed")


def test_a_run_adds_a_line_with_its_stage_and_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETPY_COUNTS", str(tmp_path / "counts"))
    monkeypatch.setenv("ROCKETPY_STAGE", "unit")
    counts = BuildCounts()
    passed = [report(when, "passed") for when in ("setup", "call", "teardown")]
    for each in (*passed, *passed, report("setup", "skipped"), passed[0], report("call", "failed")):
        counts.pytest_runtest_logreport(each)
    counts.pytest_sessionfinish()
    expected = {"stage": "unit", "build": str(BUILD), "passed": 2, "skipped": 1, "failed": 1}
    assert json.loads((tmp_path / "counts").read_text()) == expected


def test_nothing_is_written_outside_of_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETPY_COUNTS", raising=False)
    monkeypatch.chdir(tmp_path)
    BuildCounts().pytest_sessionfinish()
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_row_for_each_stage_and_a_sum_for_each_build() -> None:
    lines = [
        json.dumps({"stage": stage, "build": build, **counts})
        for stage, build, counts in (
            ("unit", "2 compiled modules", {"passed": 10}),
            ("unit", "2 compiled modules", {"passed": 5, "failed": 1}),
            ("interop", "2 compiled modules", {"passed": 3, "skipped": 2}),
            ("unit-pure", "plain Python (ROCKETPY_PURE=1)", {"passed": 7}),
        )
    ]
    assert [" ".join(row.split()) for row in table(lines)] == [
        "build stage passed failed skipped",
        "2 compiled modules unit 15 1 0",
        "2 compiled modules interop 3 0 2",
        "2 compiled modules all 18 1 2",
        "plain Python (ROCKETPY_PURE=1) unit-pure 7 0 0",
        "plain Python (ROCKETPY_PURE=1) all 7 0 0",
    ]
    assert table([]) == []


def test_a_run_of_another_build_ends_at_once(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    fault = "ROCKETPY_PURE=0 asks for compiled modules: rocketpy.remoting.hub was compiled from another source"
    monkeypatch.setattr(build_counts, "BUILD", Build(why_pure="changed", fault=fault))
    with pytest.raises(pytest.UsageError) as raised:
        register(pytestconfig)
    assert str(raised.value) == fault
