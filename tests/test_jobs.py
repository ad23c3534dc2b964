"""Jobs of a run: as many at a time as there are slots, in order, all of them; failures are printed when they happen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import attrs
import pytest

from tests.jobs import Job, run_jobs


def job(stage: str, program: str, *after: str) -> Job:
    return Job(stage, (sys.executable, "-c", program), os.environ, frozenset(after))


def noting(path: Path, status: int = 0) -> str:
    """A program that notes its begin and its end in a file."""
    return f"f = open({str(path)!r}, 'a'); f.write('begin '); f.flush(); f.write('end '); f.flush(); exit({status})"


def test_jobs_that_wait_for_a_slot_run_also_after_a_failure(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    ended = run_jobs([job("a", noting(notes)), job("b", noting(notes, 1)), job("c", noting(notes))], 2, 1)
    assert notes.read_text() == "begin end " * 3
    assert [(each.job.stage, each.passed) for each in ended] == [("a", True), ("b", False), ("c", True)]
    assert run_jobs([], 1, 1) == []


def test_a_job_waits_for_the_stages_that_it_comes_after_and_others_pass_it(tmp_path: Path) -> None:
    """The first waits for the second, and the third fills the slot. A stage that does not run is not waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    jobs = [
        job("late", "", "early", "not run"),
        job("early", f"open({str(pipe)!r}).read()"),
        job("other", f"open({str(pipe)!r}, 'w').write('x')"),
    ]
    ended = {each.job.stage: each for each in run_jobs(jobs, 2, 2)}
    assert ended["late"].begin_s >= ended["early"].end_s
    with pytest.raises(ValueError, match="waits for itself"):
        run_jobs([job("a", "", "a")], 1, 1)


def test_a_job_that_waits_needs_no_core_but_a_slot(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reads, writes = f"open({str(pipe)!r}).read()", f"open({str(pipe)!r}, 'w').write('x')"
    jobs = [job("first", reads), job("second", ""), attrs.evolve(job("third", writes), waits=True)]
    ended = {each.job.stage: each for each in run_jobs(jobs, 2, 1)}
    assert ended["second"].begin_s >= ended["first"].end_s


def test_a_command_that_is_not_there_is_a_failure_like_others(capfd: pytest.CaptureFixture[str]) -> None:
    (ended,) = run_jobs([Job("a", ("/no/such/command",), os.environ)], 1, 1)
    assert not ended.passed
    assert "No such file" in capfd.readouterr().out


def test_processor_time_is_that_of_the_command_and_its_children() -> None:
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    (ended,) = run_jobs([job("a", program)], 1, 1)
    assert ended.cpu_s >= 0.3


def test_an_output_comes_whole_without_lines_of_dots(capfd: pytest.CaptureFixture[str]) -> None:
    lines = ["..F.s  [ 50%]", "....", "tests/x.py:1: AssertionError", "1 failed, 7 passed"]
    run_jobs([job("some", f"print({chr(10).join(lines)!r}); exit(1)")], 1, 1)
    head, *rest = capfd.readouterr().out.splitlines()
    assert head.startswith("== some: FAILED in ")
    assert rest == lines[2:]
