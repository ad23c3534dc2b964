"""Shares by consistent hashing, as Java's."""

from __future__ import annotations

import pytest

from rocketpy.protocol.allocation.consistent_hash import AllocateConsistentHash, md5_position
from rocketpy.protocol.message import MessageQueue
from tests.protocol.allocation.golden_allocations import check


def test_shares_are_those_of_java() -> None:
    check(AllocateConsistentHash(), "CONSISTENT_HASH")
    check(AllocateConsistentHash(3), "CONSISTENT_HASH_3")


def test_a_negative_number_of_nodes_is_refused_and_none_owns_nothing() -> None:
    with pytest.raises(ValueError, match="illegal virtualNodeCnt :-1"):
        AllocateConsistentHash(-1)
    assert AllocateConsistentHash(0).allocate("g", "c", [MessageQueue("T", "b", 0)], ["c"]) == []


def test_a_queue_at_a_node_belongs_to_it_and_the_ring_wraps() -> None:
    positions = {"a-0": 10, "b-0": 20}

    def owner(position: int) -> str:
        strategy = AllocateConsistentHash(1, lambda key: positions.get(key, position))
        return next(each for each in "ab" if strategy.allocate("g", each, [MessageQueue("T", "b", 0)], ["a", "b"]))

    assert [owner(each) for each in (10, 11, 20, 21)] == ["a", "b", "b", "a"]


def test_a_position_is_the_first_four_bytes_unsigned() -> None:
    assert md5_position("") == 0xD41D8CD9
