"""The kernels of the index, where they are compiled; None is the general path, which defines what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketpy import BUILD

KEY_SIZE = 20
"""Bytes of a key as the kernels have it."""


class IndexKernels(NamedTuple):
    """The functions of ``protocol/kernels/index_hashes.py`` and ``index_entries.py``."""

    count_keys: Callable[[Sequence[tuple[object, ...]], int], int]
    hash_work: Callable[
        [Sequence[tuple[object, ...]], int, Callable[[str], int], Callable[[str, bytes], int]], tuple[bytes, int]
    ]
    slot_positions: Callable[[bytes, int, int], bytes]
    pack_entries: Callable[[bytes, bytes, int, int], tuple[bytes, int]]


def index_kernels() -> IndexKernels:
    """Return the kernels, compiled or not."""
    from rocketpy.protocol.kernels import index_entries, index_hashes

    return IndexKernels(
        index_hashes.count_keys, index_hashes.hash_work, index_entries.slot_positions, index_entries.pack_entries
    )


KERNELS = index_kernels() if BUILD.has_kernels else None
