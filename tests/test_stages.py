"""The stages of a run: what runs side by side, and that no stage is forgotten."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.stages import STAGES, TIER, run_side_by_side

NAMES = {stage.name for stage in STAGES}


def noting(path: Path, status: int) -> tuple[str, ...]:
    """Return a command that notes its begin and its end in a file."""
    program = f"f = open({str(path)!r}, 'a'); f.write('begin '); f.flush(); f.write('end '); f.flush(); exit({status})"
    return sys.executable, "-c", program


def test_commands_that_wait_for_their_turn_run_also_after_a_failure(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert not run_side_by_side((noting(notes, 0), noting(notes, 1), noting(notes, 0)), os.environ, at_once=1)
    assert notes.read_text() == "begin end " * 3
    assert run_side_by_side((noting(notes, 0),) * 2, os.environ)
    assert run_side_by_side((), os.environ)


def test_outputs_come_in_the_order_of_the_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first one ends after the second, which it waits for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first, second = f"cat {pipe}; echo first", f"echo second; echo last > {pipe}"
    assert run_side_by_side((("/bin/sh", "-c", first), ("/bin/sh", "-c", second)), os.environ, at_once=2)
    assert capfd.readouterr().out == "last\nfirst\nsecond\n"


def test_a_run_has_every_stage_of_its_tier() -> None:
    waiting = [stage for stage in STAGES if stage.by_default]
    found: set[str] = set()
    while waiting:
        stage = waiting.pop()
        found.add(stage.name)
        named = {each for command in stage.side_by_side for each in command if "tests.stages" in command} & NAMES
        waiting += [each for each in STAGES if each.name in named - found]
    apart = {"java", "upstream"} | ({"unit-pure", "interop-pure"} if TIER == "dev" else set())
    assert found == NAMES - apart
