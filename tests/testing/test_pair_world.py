"""Replicating stores as plain calls: nothing moves between two of them, and every fault is seen by the model."""

from __future__ import annotations

from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.client import HAState
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.network import Link
from tests.testing.replicas import a_pair, alarm_of, put, state_of

OK = PutMessageStatus.PUT_OK
TIMEOUT = PutMessageStatus.FLUSH_SLAVE_TIMEOUT


def test_nothing_moves_between_two_calls() -> None:
    with a_pair() as world:
        put(world, b"body")
        assert world.producers.answers == []
        assert world.model.logs["b"] == {}
        world.pass_time(1)
        assert world.producers.answers == [OK]
        assert world.model.logs["b"] == world.model.logs["a"] != {}


def test_a_cut_holds_the_log_back_until_it_is_healed() -> None:
    with a_pair() as world:
        world.cut("a", "b")
        put(world, b"body")
        world.pass_time(3.5)
        assert world.producers.answers == [TIMEOUT]
        assert world.model.logs["b"] == {}
        world.heal()
        world.pass_time(8)
        assert world.model.logs["b"] == world.model.logs["a"]


def test_a_slow_link_is_slow() -> None:
    with a_pair() as world:
        world.slow_down("a", "b", Link(delay_s=0.5))
        put(world, b"body")
        world.pass_time(0.4)
        assert world.producers.answers == []
        world.pass_time(0.2)
        assert world.producers.answers == [OK]


def test_a_reset_connection_is_made_again() -> None:
    with a_pair() as world:
        world.reset("a", "b")
        world.pass_time(0.05)
        assert "reset" in alarm_of(world)
        world.calm()
        assert state_of(world) is HAState.FOLLOWING
        assert alarm_of(world) == ""


def test_a_killed_store_has_what_it_showed() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.pass_time(1)
        for name, role in (("b", BrokerRole.SLAVE), ("a", BrokerRole.SYNC_MASTER)):
            before = world.model.logs[name]
            world.kill(name)
            assert world.start(name, role)
            assert world.model.logs[name] == before


def test_a_loss_of_power_takes_what_was_not_durable() -> None:
    with a_pair(flush_interval_commit_log=50_000) as world:
        put(world, b"body")
        world.pass_time(0.1)
        world.lose_power("a", lambda count: 0)
        world.start("a", BrokerRole.SYNC_MASTER)
        assert world.model.logs["a"] == {}
        world.calm()
        assert "part" in alarm_of(world) or "no record in common" in alarm_of(world)


def test_a_wiped_machine_begins_with_the_last_file() -> None:
    with a_pair() as world:
        for _ in range(10):
            put(world, b"x" * 900)
        world.pass_time(1)
        world.wipe("b")
        world.start("b", BrokerRole.SLAVE)
        world.calm()
        assert min(world.model.logs["b"]) == max(world.model.logs["a"]) // 4096 * 4096
