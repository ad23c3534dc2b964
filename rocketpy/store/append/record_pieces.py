"""The pieces of a record around its body: the head before it, and the tail between it and the properties."""

from __future__ import annotations

import struct
from typing import Protocol

from rocketpy.store import layout

_TAILS_MAX = 512


class Tails(Protocol):
    """A queue, with what its topic remembers."""

    topic: str
    tails: dict[int, bytes]


def head_for(sys_flag: int, born_host: bytes, store_host: bytes) -> tuple[struct.Struct, int]:
    """Return the struct of a record's head and the sysFlag, whose address bits are the store's to set."""
    sys_flag &= ~(layout.SYS_FLAG_BORN_V6 | layout.SYS_FLAG_STORE_V6)
    if len(born_host) != layout.HOST_V4_SIZE:
        sys_flag |= layout.SYS_FLAG_BORN_V6
    if len(store_host) != layout.HOST_V4_SIZE:
        sys_flag |= layout.SYS_FLAG_STORE_V6
    return layout.RECORD_HEADS[sys_flag >> 4 & 3], sys_flag


def tail_for(queue: Tails, properties_size: int) -> bytes:
    """Return what stands between body and properties (topic, and the size of the properties); it is remembered."""
    tails = queue.tails
    tail = tails.get(properties_size)
    if tail is None:
        if len(tails) >= _TAILS_MAX:
            tails.clear()
        topic = queue.topic.encode("utf-8", "replace")
        tail = tails[properties_size] = bytes((len(topic),)) + topic + layout.PROPERTIES_SIZE.pack(properties_size)
    return tail
