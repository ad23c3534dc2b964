"""Bits of filters: as Java computes them, for every recorded text and every size of map."""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.filter import BloomFilterData
from rocketpy.protocol.selector.bloom import BloomFilter, murmur3_x64_64
from tests.recorded import VECTORS

USUAL = BloomFilter(20, 32)


def test_positions_are_java_s() -> None:
    few = BloomFilter(1, 5)
    for vector in VECTORS["strings"]:
        if vector["string"] is not None:
            text = bytes.fromhex(vector["utf16_hex"]).decode("utf-16-be", "surrogatepass")
            assert USUAL.bit_positions(text) == vector["bloom_20_32"], vector
            assert few.bit_positions(text) == vector["bloom_1_5"], vector


@pytest.mark.parametrize("vector", VECTORS["bloom_filter"], ids=lambda vector: f"{vector['f']}-{vector['n']}")
def test_sizes_and_maps_are_java_s(vector: dict[str, object]) -> None:
    bloom = BloomFilter(int(str(vector["f"])), int(str(vector["n"])))
    assert (bloom.hash_count, bloom.bit_count) == (vector["k"], vector["m"])
    expected = vector["data"]
    assert isinstance(expected, dict)
    filter_data = BloomFilterData(expected["bitPos"], expected["bitNum"])
    assert bloom.is_valid(filter_data)
    assert len(bloom.bit_map(bloom.bits(filter_data))) * 8 == bloom.bit_count
    whole = int.from_bytes(bytes.fromhex(str(vector["bits_of_two_hex"])), "little")
    assert whole & bloom.bits(filter_data) == bloom.bits(filter_data)


def test_the_bits_of_two_filters_are_java_s_map() -> None:
    (vector,) = (vector for vector in VECTORS["bloom_filter"] if (vector["f"], vector["n"]) == (50, 1))
    assert vector["bits_of_two_hex"] == BloomFilter(50, 1).bit_map(1 << 3 | 1 << 5).hex()


@pytest.mark.parametrize(
    ("text", "positions"),
    [("CID_abc#TopicTest", [103, 61, 29]), ("GID#topicA", [92, 99, 35]), ("groupZ#TopicXYZ", [59, 76, 93])],
)
def test_positions_of_groups_and_topics(text: str, positions: list[int]) -> None:
    assert USUAL.bit_positions(text) == positions
    assert USUAL.generate(text) == BloomFilterData(positions, 112)


@pytest.mark.parametrize(("error_rate", "count"), [(0, 32), (100, 32), (-1, 32), (20, 0)])
def test_senseless_sizes_are_refused(error_rate: int, count: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        BloomFilter(error_rate, count)


@pytest.mark.parametrize(
    "filter_data",
    [None, BloomFilterData([1, 2, 3], 104), BloomFilterData([1, 2], 112), BloomFilterData([1, 2, 112], 112),
     BloomFilterData([-1, 2, 3], 112)],
)  # fmt: skip
def test_bits_of_another_filter_are_not_valid(filter_data: BloomFilterData | None) -> None:
    assert not USUAL.is_valid(filter_data)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", 0), (b"hello", 0xCBD8A7B341BD9B02), (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C)],
)
def test_murmur3_is_the_published_one(content: bytes, expected: int) -> None:
    assert murmur3_x64_64(content) == expected
