"""Packed words are exchanged as single ones are."""

from __future__ import annotations

import struct

from rocketpy.store.disk.packed_words import exchange_by_list
from rocketpy.testing.sim.disk import SimDisk


def test_values_count_up_and_old_ones_come_back_packed() -> None:
    file = SimDisk().open("/file", create=True)
    file.reserve(0, 40)
    assert exchange_by_list(file, struct.pack(">3i", 8, 36, 8), 0xFFFF_FFFD) == struct.pack(">3I", 0, 0, 0xFFFF_FFFD)
    assert file.read(0, 40) == struct.pack(">10I", 0, 0, 0xFFFF_FFFF, 0, 0, 0, 0, 0, 0, 0xFFFF_FFFE)
    assert exchange_by_list(file, b"", 1) == b""
