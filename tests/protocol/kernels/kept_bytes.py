"""Bytes of memory that an object keeps."""

from __future__ import annotations

import gc
import sys

from librt.strings import BytesWriter


def kept_bytes(root: object) -> int:
    """Return the sizes of everything that an object alone keeps; without what all connections share."""
    seen: set[int] = set()
    waiting, total = [root], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or each is None or callable(each) or isinstance(each, frozenset | BytesWriter):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total
