"""The byte streams between a Java master and its Java slave, as recorded."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import attrs

FILE_SIZE = 1 << 30
"""mappedFileSizeCommitLog of both."""

_GOLDEN = Path(__file__).parents[2] / "golden" / "ha.jsonl.gz"


@attrs.define
class RecordedStream:
    """One connection: (whether it is from the slave, bytes) in the order of the network."""

    chunks: list[tuple[bool, bytes]] = attrs.Factory(list)

    @property
    def request_offset(self) -> int:
        """The first report."""
        return int.from_bytes(next(data for is_report, data in self.chunks if is_report)[:8], "big", signed=True)


@cache
def streams() -> dict[str, RecordedStream]:
    """Return the recorded connections by name."""
    found: dict[str, RecordedStream] = {}
    with gzip.open(_GOLDEN, "rt") as lines:
        for line in lines:
            chunk = json.loads(line)
            stream = found.setdefault(f"{chunk['run']} {chunk['connection']}", RecordedStream())
            stream.chunks.append((chunk["dir"] == "slave->master", bytes.fromhex(chunk["hex"])))
    return found
