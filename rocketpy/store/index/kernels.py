"""The kernels of the index, where they are compiled; None is the general path, which defines what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from rocketpy import BUILD
from rocketpy.store.index.hash import hash_before_key, hash_of_key

KEY_SIZE = 20
"""Bytes of a key as the kernels have it."""


ReadLogKeys: TypeAlias = Callable[[bytes, int, int, int], tuple[bytes, int]]
"""``LogKeys.read``: a section of the log, position, physical offset and limit; returns keys and the end position."""


class IndexKernels(NamedTuple):
    """The functions of ``protocol/kernels/index_hashes.py``, ``index_entries.py`` and ``log_keys.py``."""

    count_keys: Callable[[Sequence[tuple[object, ...]], int], int]
    hash_work: Callable[
        [Sequence[tuple[object, ...]], int, Callable[[str], int], Callable[[str, bytes], int]], tuple[bytes, int]
    ]
    distinct_keys: Callable[[bytes], bytes]
    slot_positions: Callable[[bytes, int, int], bytes]
    pack_entries: Callable[[bytes, bytes, int, int], tuple[bytes, int]]
    log_key_reader: Callable[[], ReadLogKeys]


def index_kernels() -> IndexKernels:
    """Return the kernels, compiled or not."""
    from rocketpy.protocol.kernels import index_entries, index_hashes

    return IndexKernels(
        index_hashes.count_keys,
        index_hashes.hash_work,
        index_entries.distinct_keys,
        index_entries.slot_positions,
        index_entries.pack_entries,
        _log_key_reader,
    )


def _log_key_reader() -> ReadLogKeys:
    from rocketpy.protocol.kernels.log_keys import LogKeys

    return LogKeys(_hash_before_key, _hash_of_key).read


def _hash_before_key(topic: bytes) -> int:
    return hash_before_key(topic.decode("utf-8", "replace"))


def _hash_of_key(topic: bytes, key: bytes) -> int:
    return hash_of_key(topic.decode("utf-8", "replace"), key)


KERNELS = index_kernels() if BUILD.has_kernels else None
