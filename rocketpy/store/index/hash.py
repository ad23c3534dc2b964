"""The hashes of index keys, by the burst: every key of a burst at once, inside a few very long integers.

An IndexFile finds ``topic#key`` by Java's ``String.hashCode`` made positive. That of one key costs half as much as
storing its message, so the keys of a burst are put side by side in one integer, each in a lane of its own, and
neighbours are combined: bytes to pairs (31 * left + right), pairs to fours (31**2), and so on, until each lane ends in
its key's hash. Zeros on the left change no hash, so a shorter key is padded there. (2.2 us for 56 characters by
``sum(map(mul, key, powers))``, 0.39 us this way; 1.4 and 0.23 us for 32 characters, and 0.09 us where only the last 8
differ, as those of one producer do for a minute.)

The topic is not hashed with each key: H(a + b) = H(a) * 31**len(b) + H(b). Keys that are not ASCII, where Java counts
UTF-16 units, and keys longer than a lane take the plain way.

Where the kernels are compiled they hash instead, see ``protocol/kernels/index_hashes.py``; this is what they must agree
with.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import iter_unpack

from rocketpy.protocol.java_hash import index_key_hash, java_hash

CHUNK = 512
"""Keys that are combined at once; more costs the same per key."""

_WORD = 8
_TAIL_LANES = (_WORD, 16)
_LONG = 32  # shorter keys are hashed faster than they are taken apart
_LANES = (16, _LONG, 64, 128)
_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_PREFIXES_MAX = 4096


def hash_index_keys(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Return the IndexFile hash of each ``topic#key``; keys are UTF-8."""
    if len(keys) <= CHUNK:
        return _hash_chunk(topics, keys) if keys else []
    hashes: list[int] = []
    for start in range(0, len(keys), CHUNK):
        hashes += _hash_chunk(topics[start : start + CHUNK], keys[start : start + CHUNK])
    return hashes


def hash_index_key(topic: str, key: str) -> int:
    """Return the hash of one key: for a query."""
    return index_key_hash(f"{topic}#{key}")


def hash_of_key(topic: str, key: bytes) -> int:
    """Return the hash of one key, UTF-8: for the kernels, where it is not ASCII."""
    return hash_index_key(topic, key.decode("utf-8", "replace"))


def hash_before_key(topic: str) -> int:
    """Return the hash of ``topic#``, unsigned; cached."""
    return _PREFIXES[topic, b"", 0]


def _hash_chunk(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    lengths = set(map(len, keys))
    longest = max(lengths)
    if len(lengths) == 1 and topics.count(topics[0]) == len(topics) and longest <= _LANES[-1]:
        hashes = _hash_alike(topics[0], keys, longest)
        found = None if hashes is None else list(map(abs, hashes))
    else:
        found = _hash_different(topics, keys, longest)
    if found is None:
        return _hash_mixed(topics, keys)
    if _SIGN in found:  # Java's abs(Integer.MIN_VALUE) is negative, and RocketMQ takes 0 then
        found = [hashed if hashed != _SIGN else 0 for hashed in found]
    return found


def _hash_alike(topic: str, keys: Sequence[bytes], length: int) -> array[int] | None:
    """Return the signed hashes of keys of one topic and length; None if some are not ASCII.

    Keys of one producer differ in their last characters only. If they are long, what they begin with is hashed once.
    """
    count = len(keys)
    if length >= _LONG:
        lowest, highest = min(keys), max(keys)
        for lane in _TAIL_LANES:
            head = lowest[:-lane]
            if head == highest[:-lane] and head.isascii():
                tails = _tails_of(keys, length, lane)
                return _hash_lanes(tails, lane, count, _PREFIXES[topic, head, lane]) if tails.isascii() else None
    lane = next(lane for lane in _LANES if length <= lane)
    padding = bytes(lane - length)
    padded = padding + padding.join(keys)
    return _hash_lanes(padded, lane, count, _PREFIXES[topic, b"", length]) if padded.isascii() else None


def _tails_of(keys: Sequence[bytes], length: int, size: int) -> bytes:
    """Return the last bytes of each key, one after the other."""
    joined = b"".join(keys)
    if size == _WORD and not length % _WORD:  # one for each full row of words
        return memoryview(joined).cast("Q")[length // _WORD - 1 :: length // _WORD].tobytes()
    return b"".join([tail for (tail,) in iter_unpack(f"{length - size}x{size}s", joined)])


def _hash_different(topics: Sequence[str], keys: Sequence[bytes], longest: int) -> list[int] | None:
    """Return the hashes without sign of keys of different topics or lengths; None if some need the plain way."""
    if longest > _LANES[-1]:
        return None
    lane = next(lane for lane in _LANES if longest <= lane)
    padded = b"".join([key.rjust(lane, b"\0") for key in keys])
    if not padded.isascii():
        return None
    prefixes = _PREFIXES
    return [
        abs((((hashed + prefixes[topic, b"", len(key)]) ^ _SIGN) & _MASK) - _SIGN)
        for topic, key, hashed in zip(topics, keys, _hash_lanes(padded, lane, len(keys), 0), strict=True)
    ]


def _hash_mixed(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    hashes = [-1] * len(keys)
    plain = [index for index, key in enumerate(keys) if len(key) <= _LANES[-1] and key.isascii()]
    if plain:
        plain_topics, plain_keys = [topics[index] for index in plain], [keys[index] for index in plain]
        for index, hashed in zip(plain, _hash_chunk(plain_topics, plain_keys), strict=True):
            hashes[index] = hashed
    for index, hashed in enumerate(hashes):
        if hashed < 0:
            hashes[index] = hash_of_key(topics[index], keys[index])
    return hashes


class _Levels:
    """Shift, mask and factor of each step, for one width of lane."""

    def __init__(self, lane: int) -> None:
        self.steps: list[tuple[int, int, int]] = []
        width = 1  # bytes
        while width < lane:
            if width < 8:
                # The value of a pair stays below its lane, so left * 31**width + right is exact. It is computed as
                # whole - left * (256**width - 31**width), which saves taking the right part out.
                mask = bytes(width) + b"\xff" * width
                factor = (1 << 8 * width) - 31**width
            else:
                # From here on only the low 32 bits of each half count; what is above them is left where it is.
                mask = bytes(2 * width - 4) + b"\xff" * 4
                factor = pow(31, width, 1 << 32)
            self.steps.append((8 * width, int.from_bytes(mask * (lane * CHUNK // len(mask)), "big"), factor))
            width *= 2
        self.ones = int.from_bytes((bytes(lane - 1) + b"\1") * CHUNK, "big")


class _Prefixes(dict[tuple[str, bytes, int], int]):
    """Summands of ``topic#`` and the beginning of a key in the hash, by the length of the rest; unsigned.

    Forgets everything when it is full.
    """

    def __missing__(self, given: tuple[str, bytes, int]) -> int:
        if len(self) >= _PREFIXES_MAX:
            self.clear()
        topic, head, length = given
        prefix = java_hash(f"{topic}#{head.decode('ascii')}") * pow(31, length, 1 << 32) & _MASK
        self[given] = prefix
        return prefix


class _LevelsByLane(dict[int, _Levels]):
    """The steps for each width of lane, made at its first use: all together have a megabyte."""

    def __missing__(self, lane: int) -> _Levels:
        levels = self[lane] = _Levels(lane)
        return levels


_LEVELS = _LevelsByLane()
_PREFIXES = _Prefixes()


def _hash_lanes(padded: bytes, lane: int, count: int, prefix: int) -> array[int]:
    """Return prefix plus hash of each lane as Java's int."""
    levels = _LEVELS[lane]
    lanes = int.from_bytes(padded, "big")
    for shift, mask, factor in levels.steps:
        left = (lanes >> shift) & mask  # the masks are as long as a whole chunk; the shorter operand decides
        if shift < 64:
            lanes -= left * factor
        else:
            lanes += left * factor
    if prefix:
        lanes += (levels.ones >> 8 * lane * (CHUNK - count)) * prefix
    words = array("i", lanes.to_bytes(count * lane + 4, "little")[: count * lane])
    if sys.byteorder == "big":
        words.byteswap()
    hashes = words[:: lane // 4]
    hashes.reverse()
    return hashes
