"""Java's ``String.hashCode`` and the tag codes and index hashes that RocketMQ derives from it.

The hash runs over UTF-16 code units, so a character beyond the BMP counts as two: h = 31 * h + unit, in 32 bits signed.
Two texts may share a hash, so a filter by hash must be followed by a comparison of the texts.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import unpack

_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_BLOCK_UNITS = 128
_SHORT_MAX = 64
"""Characters of tags whose hash is kept: long ones could fill the memory."""

# 31 ** 127 ... 31 ** 0: the factors of a block's units, from which shorter texts take the tail.
_POWERS = tuple(pow(31, exponent, 2**32) for exponent in reversed(range(_BLOCK_UNITS)))
_BLOCK_FACTOR = pow(31, _BLOCK_UNITS, 2**32)


def java_hash(text: str) -> int:
    """Return ``text.hashCode()`` as Java's int; halves of surrogate pairs count as what they are."""
    return ((_unsigned_hash(text) ^ _SIGN) & _MASK) - _SIGN


def tags_code(tags: str | None) -> int:
    """Return the tag code of a ConsumeQueue unit: 0 without tags, else the hash of the whole text, never split."""
    if not tags:
        return 0
    return _hash_of_short(tags) if len(tags) <= _SHORT_MAX else java_hash(tags)


_hash_of_short = lru_cache(maxsize=4096)(java_hash)
"""Tags are few, and the slave's log computes the code of each message's."""


def index_key_hash(key: str) -> int:
    """Return the hash of an IndexFile key: not negative, and 0 where Java's ``abs`` overflows."""
    value = abs(java_hash(key))
    return 0 if value == _SIGN else value


def _unsigned_hash(text: str) -> int:
    units: bytes | tuple[int, ...]
    if text.isascii():
        units = text.encode()
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        units = unpack(f">{len(encoded) // 2}H", encoded)
    count = len(units)
    head = count if count <= _BLOCK_UNITS else count % _BLOCK_UNITS
    value: int = sum(map(mul, units[:head], _POWERS[_BLOCK_UNITS - head :]))
    for start in range(head, count, _BLOCK_UNITS):
        block = units[start : start + _BLOCK_UNITS]
        value = (value * _BLOCK_FACTOR + sum(map(mul, block, _POWERS))) & _MASK
    return value & _MASK
