"""Which stores are open, and who follows whom."""

from __future__ import annotations

import pytest

from rocketpy.store.config import BrokerRole
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.pair.machines import Machines
from rocketpy.testing.pair_world import PairWorld
from rocketpy.testing.sim.disk import ProcessDied
from tests.testing.replicas import CONFIG, a_pair, put

OK = PutMessageStatus.PUT_OK
UNAVAILABLE = PutMessageStatus.SLAVE_NOT_AVAILABLE


def test_a_second_master_has_no_slave() -> None:
    with PairWorld(CONFIG, names=("a", "b", "c")) as world:
        world.start("a", BrokerRole.SYNC_MASTER)
        world.start("b", BrokerRole.SYNC_MASTER)
        world.start("c", BrokerRole.SLAVE)
        world.follow("b")
        world.pass_time(2)
        assert world.masters() == ["a", "b"]
        assert world.slaves() == ["c"]
        put(world, b"here")
        put(world, b"there", master="b")
        world.pass_time(1)
        assert world.producers.answers == [UNAVAILABLE, OK]


def test_a_slave_follows_surely_only_after_a_disturbance_is_over() -> None:
    with a_pair() as world:
        machines = world.machines
        assert machines.surely_follows("b", "a")
        world.reset("a", "b")
        assert not machines.surely_follows("b", "a")
        world.calm()
        world.pass_time(2)
        assert machines.surely_follows("b", "a")
        world.cut("a", "b", one_way=True)
        world.pass_time(2)
        assert not machines.surely_follows("b", "a")


def test_only_an_arranged_failure_may_end_a_life() -> None:
    machines = Machines(CONFIG, ("a", "b"))
    machines.require_arranged("a", None)
    machines.require_arranged("a", ProcessDied("write", "/store/a", is_now=True))
    with pytest.raises(AssertionError, match="a has ended"):
        machines.require_arranged("a", OSError("simulated failure"))
    machines.failing.add("a")
    machines.require_arranged("a", OSError("simulated failure"))
