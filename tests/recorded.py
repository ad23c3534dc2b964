"""What Java was recorded to write: vectors of single values, and the frames of a whole cluster."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import attrs

GOLDEN = Path(__file__).parent / "golden"
VECTORS = json.loads((GOLDEN / "vectors.json").read_text())
"""Vectors by what they are of."""
BODIES = {each["class"]: each for each in VECTORS["json_bodies"]}


@attrs.frozen
class RecordedFrame:
    """A frame, and what was recorded of it."""

    scenario: str
    kind: str
    code: int
    code_name: str | None
    request_code: int
    serialize: str
    content: bytes

    @property
    def json_header(self) -> bytes:
        """The header of a frame in JSON."""
        return self.content[8 : 8 + int.from_bytes(self.content[5:8], "big")]


@cache
def recorded_frames() -> tuple[RecordedFrame, ...]:
    """Return every frame, in order."""
    with gzip.open(GOLDEN / "frames.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    names = [each.name for each in attrs.fields(RecordedFrame)][:-1]
    return tuple(RecordedFrame(*(row[name] for name in names), bytes.fromhex(row["frame_hex"])) for row in rows)


def requests_with_fields(code: int) -> list[bytes]:
    """Return the JSON headers of the requests of a code that have fields at all."""
    return [
        each.json_header
        for each in recorded_frames()
        if each.kind != "response"
        and (each.code, each.serialize) == (code, "JSON")
        and b'"extFields"' in each.json_header
    ]
