"""The checksum of bodies, held against Java's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpy.protocol.crc import body_crc

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["crc32"], ids=lambda vector: vector["hex"][:16] or "empty")
def test_checksums_are_those_of_java(vector: dict[str, object]) -> None:
    body = bytes.fromhex(str(vector["hex"]))
    assert body_crc(body) == vector["crc"]
    assert body_crc(memoryview(body)) == vector["crc"]


def test_checksums_of_text_are_those_of_java() -> None:
    for vector in VECTORS["strings"]:
        if vector["string"] is not None:
            text = bytes.fromhex(vector["utf16_hex"]).decode("utf-16-be", "replace")
            assert body_crc(text.encode()) == vector["crc32_utf8"]
