"""Walks in lanes: what plain steps from size to size find."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RECORD_SIZE_MAX, RECORD_SIZE_MIN
from rocketpy.spark.columns.walk import walk, walk_lanes

HEAD = struct.Struct(">ii")


def sized(size: int, fill: bytes = b"\0") -> bytes:
    """A record as far as a walk looks at it."""
    content = HEAD.pack(size, MESSAGE_MAGIC_CODE)
    return content + (fill * size)[: size - len(content)]


def plain_steps(buffer: bytes, position: int, limit: int) -> tuple[list[int], int]:
    starts = []
    while position < min(limit, len(buffer) - RECORD_SIZE_MIN + 1):
        size = int.from_bytes(buffer[position : position + 4], "big", signed=True)
        if not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX or position + size > len(buffer):
            break
        starts.append(position)
        position += size
    return starts, position


def assert_walked(buffer: bytes, position: int = 0, limit: int | None = None) -> None:
    limit = len(buffer) if limit is None else limit
    expected = plain_steps(buffer, position, limit)
    for each in (buffer, memoryview(buffer)):  # in lanes, and plain
        starts, end = walk(each, position, limit)
        assert (starts.tolist(), end) == expected


def sizes(seed: int, among: Sequence[int], count: int = 6000) -> list[int]:
    return random.Random(seed).choices(among, k=count)


@pytest.mark.parametrize("among", [(200,), (91, 92, 400), (100, 100, 100, 9000), tuple(range(91, 700))])
@pytest.mark.parametrize("seed", range(3))
def test_lanes_find_what_plain_steps_find(among: Sequence[int], seed: int) -> None:
    content = b"".join(map(sized, sizes(seed, among)))
    assert_walked(content)
    for cut in (1, 50, 91, 1000):
        assert_walked(content[:-cut])
        assert_walked(content, limit=len(content) - cut)
    second = int.from_bytes(content[:4], "big")
    assert_walked(content, second, len(content) // 2)


def test_most_records_are_found_in_lanes() -> None:
    """Or the tests of lanes would test plain steps."""
    content = b"".join(map(sized, sizes(1, range(91, 700))))
    starts, end = walk_lanes(content, 0, len(content) - RECORD_SIZE_MIN + 1)
    assert starts is not None
    assert len(starts) > 5990
    assert end > len(content) - 2000


@pytest.mark.parametrize("every", [1, 7])
def test_magic_numbers_in_bodies_mislead_no_lane(every: int) -> None:
    """Each body is full of heads that look like records, of sizes that lead on and on."""
    decoy = sized(96) * 20
    content = b"".join(
        sized(size, decoy if number % every == 0 else b"x") for number, size in enumerate(sizes(2, range(91, 900)))
    )
    assert_walked(content)


@pytest.mark.parametrize("size", [0, -1, 90, -(2**31), 2**31 - 1, 95, RECORD_SIZE_MAX + 1])
@pytest.mark.parametrize("number", [0, 1, 77, 3000, 5999])
def test_a_walk_ends_at_a_size_that_is_impossible_and_follows_one_that_is_wrong(size: int, number: int) -> None:
    chosen = sizes(3, (200, 300))
    content = bytearray(b"".join(map(sized, chosen)))
    at = sum(chosen[:number])
    content[at : at + 4] = struct.pack(">i", size)
    assert_walked(bytes(content))


def test_zeros_and_noise_are_walked_as_plain_steps_do() -> None:
    assert_walked(bytes(400_000))
    noise = random.Random(4).randbytes(400_000)
    assert_walked(noise)
    assert_walked(b"".join(map(sized, sizes(5, (200,), 2000))) + noise)
