"""Builds and runs ``load.c``, the load generator."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.brokers import BenchError, Broker
from bench.probe import ACCESS_KEY, SECRET_KEY

SOURCE = Path(__file__).with_name("load.c")
RUN_S = 600.0


@dataclass(frozen=True)
class LoadResult:
    """What one run of the generator says; rates include the time until queues and index had caught up."""

    messages: int
    load_s: float
    drain_s: float
    per_s: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    indexed: int  # the last message is found by its key: 1 yes, 0 no, -1 the broker does not say
    errors: int
    first_error: str


def build(directory: Path) -> Path:
    """Compile the generator into a directory; return the program."""
    program = directory / "load"
    command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError as error:
        raise BenchError("a C compiler named cc is needed to build the load generator") from error
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed:\n{done.stderr}")
    return program


def run(program: Path, broker: Broker, mode: str, **options: str | int | float) -> LoadResult:
    """Run the generator against a broker; ``BenchError`` when it gives up."""
    return run_all(program, [broker], mode, **options)[0]


def run_all(program: Path, brokers: Sequence[Broker], mode: str, **options: str | int | float) -> list[LoadResult]:
    """Run a generator against each of several brokers, all at the same time; ``BenchError`` when one gives up.

    Each has a topic of its own, because it waits until the queues of its topic hold what it has sent.
    """
    each = [options | ({"topic": f"{options['topic']}_{number}"} if number else {}) for number in range(len(brokers))]
    with ExitStack() as stack:
        running = [
            stack.enter_context(started(program, broker, mode, **given))
            for broker, given in zip(brokers, each, strict=True)
        ]
        deadline = time.monotonic() + RUN_S
        return [_result(broker, process, deadline) for broker, process in zip(brokers, running, strict=True)]


@contextmanager
def started(program: Path, broker: Broker, mode: str, **options: str | int | float) -> Iterator[subprocess.Popen[str]]:
    """Run the generator against a broker until the end of the block, where it is ended if it still runs."""
    if broker.has_accounts:
        options |= {"account": ACCESS_KEY, "secret": SECRET_KEY}
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [str(program), mode, "--port", str(broker.port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _result(broker: Broker, process: subprocess.Popen[str], deadline: float) -> LoadResult:
    command = " ".join(map(str, process.args)) if isinstance(process.args, list) else str(process.args)
    try:
        output, errors = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise broker.failed(f"{command} took longer than {RUN_S:.0f} s") from error
    if process.returncode != 0:
        raise broker.failed(f"{command}: {errors.strip()}")
    return LoadResult(**json.loads(output))
