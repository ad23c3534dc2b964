"""What the model sees of the stores, and when a broken invariant is raised."""

from __future__ import annotations

import pytest

from rocketpy.testing.replication_model import Invariant, ReplicationBroken
from tests.testing.replicas import a_pair, put


def test_a_key_is_found_on_both_sides() -> None:
    with a_pair() as world:
        world.producers.put("a", "T", 1, b"body", keys=["k"])
        world.producers.put("a", "T", 1, b"body", keys=["other"])
        world.pass_time(1)
        found: dict[str, int] = {}
        world.model.finds = lambda name, topic, key, offsets: found.update({name: len(offsets)})  # type: ignore[method-assign]
        world.search("T", "k")
        assert found == {"a": 1, "b": 1}


def test_a_life_that_ends_without_a_reason_is_a_failure() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.replica("b").host.disk.fail_call("write", 1)  # behind the world's back
        with pytest.raises(AssertionError, match="b has ended"):
            world.pass_time(1)


def test_a_broken_invariant_is_raised_by_the_call_in_which_it_happened() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.model.logs["a"] = {0: b"never written"}
        with pytest.raises(ReplicationBroken) as raised:
            put(world, b"body")
        assert raised.value.invariant is Invariant.STORED_STAYS
