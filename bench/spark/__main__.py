"""The DataFrames, section by section: ``python -m bench.spark [--sections NAME ...]``.

    python -m bench.spark                                  # 200 MiB of 128-byte and of 1 KiB messages
    python -m bench.spark --sections files --mib 1024 --rounds 5    # the sizes of docs/performance.md

    python -m bench.spark --sections live stream sink --mib 50

The figures are medians in rows a second; quote the ratios, for the machine is never quiet enough for the figures.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.spark import files, live, sink, stream
from bench.spark.section import Bench, Section

SECTIONS: dict[str, Section] = {
    "files": files.measure,
    "live": live.measure,
    "stream": stream.measure,
    "sink": sink.measure,
}


def main() -> int:
    """Run the sections one after the other."""
    options = _parse_options()
    options.directory.mkdir(parents=True, exist_ok=True)
    for name in options.sections:
        work = Path(tempfile.mkdtemp(prefix=f"spark-{name}-", dir=options.directory))
        bench = Bench(work=work, mib=options.mib, body_sizes=options.body, rounds=options.rounds, cores=options.cores)
        try:
            SECTIONS[name](bench)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description="DataFrames of messages.")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--mib", type=int, default=200, help="size of the CommitLog, or of what a topic has, about")
    parser.add_argument("--body", type=int, nargs="+", default=[128, 1024], help="sizes of a message's body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=Path(__file__).parents[1] / "results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
