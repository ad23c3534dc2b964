"""Builds and runs ``load.c``, the load generator."""

from __future__ import annotations

import json
import subprocess
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
    if broker.has_accounts:
        options |= {"account": ACCESS_KEY, "secret": SECRET_KEY}
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [str(program), mode, "--port", str(broker.port), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise broker.failed(f"{' '.join(command)} took longer than {RUN_S:.0f} s") from error
    if done.returncode != 0:
        raise broker.failed(f"{' '.join(command)}: {done.stderr.strip()}")
    return LoadResult(**json.loads(done.stdout))
