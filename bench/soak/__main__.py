"""``python -m bench.soak --minutes 5``: producers and consumers while brokers are killed and paused; what was kept.

It starts a nameserver, a master with its slave and a second master, and members of three groups, all as processes on
loopback. Exit status: 0 when every promise was kept, 1 otherwise. ``--keep`` leaves logs, journals and stores.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.soak.driver import open_soak


def main() -> int:
    """Run one soak and print its report."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Clients and brokers under faults.")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults go on (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: the time)")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    directory = Path(tempfile.mkdtemp(prefix="rocketpy-soak-"))
    print(f"seed {seed}, {directory}", flush=True)
    try:
        with open_soak(directory, seed) as soak:
            soak.disturb(60 * options.minutes)
            report = soak.settle()
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(report.lines()))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
