"""Runs commands a few at a time, and prints the first failure when it happens.

A job is one command of a stage. Jobs start in their order, as soon as a slot is free and the stages that they wait for
have ended. A job that computes needs a core as well; those whose programs wait for each other fill the slots beside.
The output of a job is kept, and printed when it has ended; but a test that fails is printed at once, by
``tests.first_failure``.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten

import attrs

ROOT = Path(__file__).resolve().parent.parent
CONSOLE = "ROCKETPY_CONSOLE"
"""The variable that names the descriptor to which a run of pytest writes failures."""

_COMMAND_SHOWN = 200
_PROGRESS = re.compile(r"^[.sxXEF,]*( *\[ *\d+%\])?$")
"""Lines of pytest that only say that something happens."""


@attrs.frozen
class Job:
    """One command of a stage."""

    stage: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    after: frozenset[str] = frozenset()
    """Stages of which every job must have ended, passed or not, before this one starts."""

    waits: bool = False
    """Whether it mostly waits for the programs that it starts."""


@attrs.frozen
class Ended:
    """How a job ended."""

    job: Job
    passed: bool
    begin_s: float
    end_s: float
    cpu_s: float
    """Processor time of the command and of every child that it waited for."""


def run_jobs(
    jobs: Sequence[Job], slots: int, cores: int, ended: Callable[[Ended], None] = lambda each: None
) -> list[Ended]:
    """Run all jobs, at most ``slots`` at a time, of which at most ``cores`` compute, also after a failure.

    Returns how they ended, in that order.

    ``ended`` is called for each of them, from a thread, never for two at once.
    """
    results: list[Ended] = []
    waiting = list(jobs)
    running: list[Job] = []
    changed = threading.Condition()
    console = os.dup(1)

    def run(job: Job) -> None:
        result, output = _run(job, console)
        with changed:
            running.remove(job)
            results.append(result)
            _print(result, output)
            ended(result)
            changed.notify()

    def next_job() -> Job | None:
        unfinished = {each.stage for each in (*waiting, *running)}
        has_core = sum(not each.waits for each in running) < cores
        startable = (job for job in waiting if not job.after & unfinished and (job.waits or has_core))
        return next(startable, None) if len(running) < slots else None

    try:
        with changed:
            while waiting or running:
                job = next_job()
                if job is None:
                    if not running:
                        raise ValueError(f"{waiting[0].stage} waits for itself: {sorted(waiting[0].after)}")
                    changed.wait()
                    continue
                waiting.remove(job)
                running.append(job)
                threading.Thread(target=run, args=(job,)).start()
    finally:
        os.close(console)
    return results


def _run(job: Job, console: int) -> tuple[Ended, str]:
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                job.command,
                cwd=ROOT,
                env={**job.environment, CONSOLE: str(console)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(console,),
            )
        except OSError as failure:
            return Ended(job, False, begin, time.monotonic(), 0.0), str(failure)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    passed = process.returncode == 0  # pytest's "no tests" is a failure like any other status
    return Ended(job, passed, begin, time.monotonic(), usage.ru_utime + usage.ru_stime), printed


def _print(result: Ended, output: str) -> None:
    """Print a line that says which job it was and how it ended, and its output without lines of dots."""
    command = " ".join((Path(result.job.command[0]).name, *result.job.command[1:]))
    state = "passed" if result.passed else "FAILED"
    head = (
        f"== {result.job.stage}: {state} in {result.end_s - result.begin_s:.1f} s: {shorten(command, _COMMAND_SHOWN)}"
    )
    print("\n".join((head, *(line for line in output.splitlines() if not _PROGRESS.fullmatch(line)))), flush=True)
