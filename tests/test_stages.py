"""The stages of each tier: each test belongs to one of them, and what is left out is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import stages
from tests.jobs import Ended, Job
from tests.stages import CI, STAGES, left_out, main, table

ROOT = Path(__file__).parents[1]


def names_in(tier: str, **variables: str) -> list[str]:
    """Return the stages of a tier, as a new process sees them."""
    program = "from tests.stages import STAGES, TIER; print(*(each.name for each in STAGES if TIER in each.tiers))"
    kept = {name: value for name, value in os.environ.items() if name not in ("ROCKETPY_PURE", "ROCKETPY_REQUIRE")}
    environment = kept | {"ROCKETPY_TIER": tier} | variables
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_people_test_the_sources_and_landing_tests_all_of_it() -> None:
    dev, ci = names_in("dev"), names_in("ci", ROCKETPY_REQUIRE="compiler")
    assert {"style", "types", "floors", "unit", "properties", "samples"} <= set(dev)
    assert not {
        "compile",
        "both-builds",
        "interop",
        "blackbox",
        "spark",
        "notebooks",
        "wheel",
        "hunts",
    } & set(dev)
    assert set(ci) == {stage.name for stage in STAGES} - {"samples", "coverage", "java", "upstream"}
    assert names_in("deep", ROCKETPY_REQUIRE="compiler") == [*ci, "coverage"]
    assert set(ci) - set(names_in("ci", ROCKETPY_PURE="1")) == {"compile", "both-builds", "bugs", "hunts"}


def test_every_folder_and_file_of_tests_is_in_a_stage() -> None:
    unit = [argument for command in stages.UNIT for argument in command]
    ignored = {argument.removeprefix("--ignore=") for argument in unit if argument.startswith("--ignore=")}
    elsewhere = ignored - set(stages.UNIT_FOLDERS)
    assert elsewhere == set(stages.PROCESSES)
    run = {argument for stage in STAGES for command in stage.commands for argument in command if CI & stage.tiers}
    interop = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/interop").glob("test_*.py")}
    assert interop <= run
    assert elsewhere - {"tests/interop"} <= run
    for path in (*stages.PROCESSES, *stages.UNIT_FOLDERS, *stages.HALF_OF_PROPERTIES):
        assert (ROOT / path).exists()


def test_an_unknown_stage_is_named_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unit", "units"]) == 2
    assert "no stage named 'units', expected one of: style, " in capsys.readouterr().err


def test_the_table_has_the_time_of_a_stage_from_its_first_to_its_last_moment() -> None:
    unit = next(stage for stage in STAGES if stage.name == "unit")
    wheel = next(stage for stage in STAGES if stage.name == "wheel")
    job = Job("unit", (), {})
    rows = table([unit, wheel], [Ended(job, True, 10.0, 20.0, 7.0), Ended(job, False, 12.0, 25.5, 8.0)], {"wheel"})
    assert rows[1].split() == ["unit", "FAILED", "15.5", "15.0"]
    assert rows[2] == f"{'wheel':16} skipped: its inputs are those of a run that passed"


def test_what_a_tier_leaves_out_is_said_with_how_to_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "TIER", "dev")
    head, *rest = left_out([stage for stage in STAGES if "dev" in stage.tiers])
    assert head == "left out (ROCKETPY_TIER=ci make test runs all of it):"
    assert "  unit: cases above some 0.3 s of processor time" in rest
    assert "  blackbox: all of it" in rest
    monkeypatch.setattr(stages, "TIER", "deep")
    assert left_out(STAGES) == []
