"""Our clients and brokers as processes for minutes; exit status 0 when all was as it must be, 1 otherwise.

``python -m bench.soak --minutes 5``: producers and consumers while brokers are killed and paused; what was kept. It
starts a nameserver, a master with its slave and a second master, and members of three groups, all on loopback.

``python -m bench.soak --come-and-go --minutes 20``: clients, topics and groups come and go at a nameserver and a master
with its slave; what has grown (:mod:`bench.soak.come_and_go`).

``--keep`` leaves logs, journals, samples and stores.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench.soak.come_and_go import PAUSE_SECONDS, open_run, round_seconds
from bench.soak.driver import open_soak


def main() -> int:
    """Run one of both and print its report."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Clients and brokers for minutes.")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it goes on (default 5)")
    parser.add_argument("--come-and-go", action="store_true", help="no faults: names come and go, and what grows")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help="seconds between visits of one task")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: the time)")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended then, too
    directory = Path(tempfile.mkdtemp(prefix="rocketpy-soak-"))
    try:
        if options.come_and_go:
            print(directory, flush=True)
            return come_and_go(directory, 60 * options.minutes, options.pause)
        seed = int(time.time()) if options.seed is None else options.seed
        print(f"seed {seed}, {directory}", flush=True)
        return disturb(directory, 60 * options.minutes, seed)
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


def disturb(directory: Path, seconds: float, seed: int) -> int:
    """Run a soak under faults."""
    with open_soak(directory, seed) as soak:
        soak.disturb(seconds)
        report = soak.settle()
    print("\n".join(report.lines()))
    return 1 if report.violations else 0


def come_and_go(directory: Path, seconds: float, pause_s: float) -> int:
    """Let all come and go."""
    with open_run(directory, pause_s=pause_s, round_s=round_seconds(seconds)) as run:
        run.rounds(seconds)
        report = run.finish()
    print("\n".join(report.lines()))
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
