"""Heads and tails of records."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.store.append.record_pieces import head_for, tail_for
from tests.store.parts import BORN_HOST, BORN_HOST_V6, STORE_HOST, STORE_HOST_V6


@attrs.define
class Queue:
    topic: str
    tails: dict[int, bytes] = attrs.Factory(dict)


@pytest.mark.parametrize("claimed", [0, 0x10, 0x20, 0x30])
def test_the_address_bits_say_what_the_addresses_are(claimed: int) -> None:
    """A client that sets them would shift every field behind."""
    for born_host, born_flag in ((BORN_HOST, 0), (BORN_HOST_V6, 0x10)):
        for store_host, store_flag in ((STORE_HOST, 0), (STORE_HOST_V6, 0x20)):
            head, sys_flag = head_for(0x101 | claimed, born_host, store_host)
            assert sys_flag == 0x101 | born_flag | store_flag
            assert head.size == 88 + (12 if born_flag else 0) + (12 if store_flag else 0)


def test_a_tail_is_topic_and_size_and_is_remembered() -> None:
    queue = Queue("ü")
    assert tail_for(queue, 258) == b"\x02\xc3\xbc\x01\x02"
    assert tail_for(queue, 258) is queue.tails[258]


def test_what_is_remembered_is_bounded() -> None:
    queue = Queue("T")
    for size in range(2000):
        assert tail_for(queue, size)[-2:] == size.to_bytes(2, "big")
        assert len(queue.tails) <= 512
