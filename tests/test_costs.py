"""What is measured is what a test and its children have cost, and the tables name what is dear."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import costs
from tests.costs import BUILT, FIXTURE, TEST, Cost, Meter, tables

pytest_plugins = ("pytester",)

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_the_processor_time_of_a_child_counts_while_it_runs_and_when_it_has_ended() -> None:
    before = costs.tree_cpu_s()
    with subprocess.Popen(
        [sys.executable, "-c", f"{BURN}print(flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while_it_runs = costs.tree_cpu_s() - before
        child.communicate(b"\n")
    assert while_it_runs >= 0.28
    assert costs.tree_cpu_s() - before >= while_it_runs - 0.02


def test_a_fixture_is_measured_without_those_that_it_asks_for() -> None:
    written: dict[str, float] = {}
    meter = Meter(lambda kind, name, wall_s, cpu_s: written.update({name: cpu_s}))
    with meter.measured(FIXTURE, "outer", is_nested=True), meter.measured(FIXTURE, "inner", is_nested=True):
        exec(BURN)
    assert written["inner"] >= 0.3
    assert written["outer"] < 0.1


def test_a_run_writes_its_tests_fixtures_and_collection(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from tests import costs\ndef pytest_configure(config): costs.register(config)\n")
    pytester.makepyfile("import pytest\n@pytest.fixture\ndef it(): return 1\ndef test_it(it): pass\n")
    monkeypatch.setenv("ROCKETPY_COSTS", str(tmp_path / "costs"))
    monkeypatch.setenv("ROCKETPY_STAGE", "some")
    root = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", root)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    found = costs.read_costs(tmp_path / "costs")
    assert [each.kind for each in found] == ["speed", "collection", "fixture", "test", "speed"]
    assert {each.stage for each in found} == {"some"}
    assert found[3].name.endswith("::test_it")
    costs.forget(tmp_path / "costs", "other")
    assert costs.read_costs(tmp_path / "costs") == found
    costs.forget(tmp_path / "costs", "some")
    assert costs.read_costs(tmp_path / "costs") == []


def test_what_is_built_is_noted_only_where_something_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETPY_COSTS", raising=False)
    with costs.built("nothing"):
        pass
    monkeypatch.setenv("ROCKETPY_COSTS", str(tmp_path / "costs"))
    monkeypatch.setenv("ROCKETPY_STAGE", "some")
    with costs.built("a jar"):
        pass
    (line,) = costs.read_costs(tmp_path / "costs")
    assert (line.kind, line.name, line.stage) == (BUILT, "a jar", "some")


def test_the_tables_have_the_dearest_first_and_what_is_built_twice_once() -> None:
    measured = [
        Cost(TEST, "tests/a/test_x.py::test_quick", "unit", 0.1, 0.1),
        Cost(TEST, "tests/a/test_x.py::test_dear", "unit", 2.0, 2.0),
        Cost(TEST, "tests/b/test_y.py::test_waits", "spark", 9.0, 0.2),
        Cost(BUILT, "cluster", "spark", 3.0, 1.0),
        Cost(BUILT, "cluster", "interop", 3.0, 1.0),
    ]
    text = "\n".join(tables(measured))
    assert text.index("test_dear") < text.index("test_quick")
    waits = text[text.index("tests by waiting") :]
    assert waits.index("test_waits") < waits.index("test_dear")
    assert "    2.00     4.00       2  cluster (interop, spark)" in text


def test_without_measurements_it_says_what_makes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert costs.main([str(tmp_path)]) == 1
    assert "expected measurements of python -m tests.stages" in capsys.readouterr().err
    (tmp_path / "x-1.jsonl").write_text(json.dumps([TEST, "t", "unit", 1.0, 1.0]) + "\n")
    assert costs.main([str(tmp_path)]) == 0
