"""The bit maps that say which SQL filters a message passed when it was stored.

Every group's filter of a topic owns a few bits of a map, hashed from ``group#topic``. A message's map has the bits of
all filters that it passed, so a filter with a bit missing did not want the message, and one with all of them may have.
Bit p of a map is bit p mod 8 of its byte p div 8, the lowest first: as a little-endian number it is ``1 << p``.

Compatibility: ``BloomFilter`` and ``BitsArray`` of 4.9.8, with Guava's ``murmur3_128`` (seed 0, x64).
"""

from __future__ import annotations

import math
from struct import iter_unpack, unpack

import attrs

from rocketpy.protocol.bodies.filter import BloomFilterData

_MASK = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


@attrs.frozen
class BloomFilter:
    """Length of the bit maps, and the bits of each text.

    ``error_rate`` is in percent (1 to 99), ``expected_count`` how many filters a map is made for; ValueError otherwise.

    >>> BloomFilter(20, 32).bit_positions("CID_abc#TopicTest")
    [103, 61, 29]
    """

    error_rate: int = attrs.field()
    expected_count: int = attrs.field()
    hash_count: int = attrs.field(init=False)
    bit_count: int = attrs.field(init=False)

    @error_rate.validator
    def _check_error_rate(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not 1 <= value < 100:
            raise ValueError(f"expected an error rate of 1 to 99 percent, found {value}")

    @expected_count.validator
    def _check_expected_count(self, attribute: attrs.Attribute[int], value: int) -> None:
        if value < 1:
            raise ValueError(f"expected at least one filter, found {value}")

    def __attrs_post_init__(self) -> None:
        share = self.error_rate / 100
        object.__setattr__(self, "hash_count", math.ceil(_log(0.5, share)))
        bits = math.ceil(self.expected_count * _log(2, 1 / share) * _log(2, math.e))
        object.__setattr__(self, "bit_count", 8 * math.ceil(bits / 8))

    def bit_positions(self, text: str) -> list[int]:
        """Return the bits that a text owns, one of each hash; the same one may come twice."""
        hash_64 = murmur3_x64_64(text.encode("utf-8", "replace"))
        low, high = hash_64 & 0xFFFF_FFFF, hash_64 >> 32
        positions = []
        for count in range(1, self.hash_count + 1):
            combined = (low + count * high) & 0xFFFF_FFFF
            if combined >= 1 << 31:  # negative in Java
                combined ^= 0xFFFF_FFFF
            positions.append(combined % self.bit_count)
        return positions

    def generate(self, text: str) -> BloomFilterData:
        """Return the bits of a text as consumerFilter.json keeps them."""
        return BloomFilterData(self.bit_positions(text), self.bit_count)

    def is_valid(self, filter_data: BloomFilterData | None) -> bool:
        """Return whether bits that were kept belong to maps of this length."""
        return (
            filter_data is not None
            and filter_data.bit_num == self.bit_count
            and len(filter_data.bit_pos) == self.hash_count
            and all(0 <= position < self.bit_count for position in filter_data.bit_pos)
        )

    def bits(self, filter_data: BloomFilterData) -> int:
        """Return the bits of a filter as a number, to be put together with ``|``; they must be valid."""
        bits = 0
        for position in filter_data.bit_pos:
            bits |= 1 << position
        return bits

    def bit_map(self, bits: int) -> bytes:
        """Return the map that has these bits."""
        return bits.to_bytes(self.bit_count // 8, "little")


def murmur3_x64_64(content: bytes) -> int:
    """Return the first 64 bits, little-endian and unsigned, of the 128-bit MurmurHash3 with seed 0."""
    h1 = h2 = 0
    tail_size = len(content) % 16
    for k1, k2 in iter_unpack("<QQ", content[: len(content) - tail_size]):
        h1 ^= _mixed_1(k1)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed_2(k2)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    if tail_size:
        k1, k2 = unpack("<QQ", content[-tail_size:].ljust(16, b"\0"))
        h2 ^= _mixed_2(k2)
        h1 ^= _mixed_1(k1)
    h1 ^= len(content)
    h2 ^= len(content)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_final(h1) + _final(h2)) & _MASK


# ---- private ---------------------------------------------------------------------------------------------------------


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)


def _rotated(value: int, count: int) -> int:
    return ((value << count) | (value >> (64 - count))) & _MASK


def _mixed_1(k1: int) -> int:
    return _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(k2: int) -> int:
    return _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
