"""The hashes of index keys, one key after the other.

    h = 31 * h + byte, in 32 bits, begun with what stands before the key: ``topic#``

The index has |h|, and 0 for the one number whose negative does not fit.
"""

from __future__ import annotations

from mypy_extensions import i64


def hash_ascii_keys(before: int, keys: list[bytes]) -> list[int] | None:
    """Return the IndexFile hash of each key; None if one is not ASCII. ``before`` is the hash of ``topic#``, unsigned.

    Compatibility: ``String.hashCode`` and ``IndexFile.indexKeyHashMethod`` (4.9.8).
    """
    start = i64(before)
    hashes: list[int] = []
    for key in keys:
        value = start
        index: i64 = 0
        while index < i64(len(key)):
            byte = i64(key[index])
            if byte > 0x7F:
                return None
            value = (value * 31 + byte) & 0xFFFFFFFF
            index += 1
        if value > 0x80000000:
            value = 0x100000000 - value
        elif value == 0x80000000:
            value = 0
        hashes.append(value)
    return hashes
