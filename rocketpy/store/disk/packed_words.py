"""``exchange_packed`` of a file by its ``exchange_words``: where no kernel is compiled, and in simulation."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

WORD_SIZE = 4


class ExchangesWords(Protocol):
    """A file whose words can be exchanged."""

    def exchange_words(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        """Replace words one after the other; return the previous value of each."""
        ...


def exchange_by_list(file: ExchangesWords, positions: bytes, first_value: int) -> bytes:
    """Exchange words at packed positions for values that count up; return what was there, packed."""
    count = len(positions) // WORD_SIZE
    packed = struct.Struct(f">{count}I")
    return packed.pack(*file.exchange_words(packed.unpack(positions), range(first_value, first_value + count)))
