"""Slow cases are a measured list, and a case moves only when it is clearly on the other side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import slow_cases
from tests.costs import LOOP_S
from tests.slow_cases import SlowCases, changed_sides, measured_cases, new_list, report

F, G = "tests/test_x.py::test_f", "tests/test_x.py::test_g"


class Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def test_a_listed_case_and_every_case_of_a_listed_function_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_cases, "listed", lambda: frozenset({F, f"{G}[a]"}))
    items = [Item(name) for name in (F, f"{F}[b]", f"{G}[a]", f"{G}[b]")]
    SlowCases().pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [item.marks for item in items] == [["slow"], ["slow"], ["slow"], []]


def test_between_the_limits_either_side_is_right() -> None:
    measured = {F: 0.4, f"{G}[a]": 0.4, f"{G}[b]": 0.6, f"{G}[c]": 0.2, "tests/test_y.py::test_h": 0.6}
    names = {F, f"{G}[b]", f"{G}[c]", "tests/test_z.py::test_gone"}
    assert changed_sides(names, measured) == (
        ["tests/test_y.py::test_h"],
        [f"{G}[c]"],
        ["tests/test_z.py::test_gone"],
    )


def test_a_function_stands_for_its_cases_where_all_are_slow() -> None:
    measured = {f"{F}[a]": 0.9, f"{F}[b]": 0.4, f"{G}[a]": 0.4, f"{G}[b]": 0.26}
    assert new_list(measured) == [F, f"{G}[a]"]


def test_times_are_those_of_the_usual_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        ["speed", "", "unit", 0.1, 2 * LOOP_S],
        ["test", F, "unit", 3.0, 1.0],
        ["test", G, "spark", 3.0, 1.0],
        ["speed", "", "spark", 0.1, LOOP_S],
    ]
    (tmp_path / "unit-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert measured_cases(tmp_path, ("unit",)) == {F: 0.5}
    monkeypatch.setattr(slow_cases, "listed", lambda: frozenset({"tests/test_z.py::test_gone"}))
    assert report(tmp_path) == [
        f"above 0.5 s, not listed as slow: 0.67 s {F}",
        f"above 0.5 s, not listed as slow: 0.67 s {G}",
        "listed as slow, and no such case was run: tests/test_z.py::test_gone",
    ]
