"""What Java's clients, brokers and nameservers were recorded to send: the frames of ``tests/golden``."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame

GOLDEN = Path(__file__).parents[1] / "golden"


@attrs.frozen
class RecordedFrame:
    """A frame of a client, a broker or a ``namesrv``; its kind is ``request``, ``oneway`` or ``response``."""

    run: str
    scenario: str
    connection: int
    sender: str
    kind: str
    request_code: int
    """The code of what a response answers; of a request its own."""
    command: RemotingCommand


@cache
def recorded_frames() -> tuple[RecordedFrame, ...]:
    """Return all frames, in order."""
    with gzip.open(GOLDEN / "frames.jsonl.gz", "rt") as lines:
        return tuple(_read(json.loads(line)) for line in lines)


def _read(row: dict[str, Any]) -> RecordedFrame:
    facts = [row[name] for name in ("run", "scenario", "connection", "from", "kind", "request_code")]
    facts.append(decode_frame(bytes.fromhex(row["frame_hex"])))
    return RecordedFrame(*facts)
