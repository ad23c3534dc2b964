"""What producers are answered, and how their sends may end a process."""

from __future__ import annotations

import pytest

from rocketpy.store.config import BrokerRole
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.store_world import LifeEnded
from tests.testing.replicas import a_pair, put

OK = PutMessageStatus.PUT_OK


def test_every_kind_of_message_has_its_unit_on_the_slave() -> None:
    with a_pair() as world:
        world.producers.put("a", "T", 1, b"body", keys=["k"], tags="t")
        world.producers.put("a", "T", 0, b"body", delay_level=2)
        world.producers.put("a", "T", 0, b"prepared", sys_flag=4)
        world.producers.put_batch("a", "T", 0, [b"one", b"two"])
        world.pass_time(1)
        assert world.producers.answers == [OK] * 4
        world.compare_units()
        assert len(world.model.logs["b"]) == 5


def test_a_producer_may_wait_for_what_was_written_before() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.pass_time(1)
        world.producers.wait_again("a")
        assert world.producers.answers == [OK, OK]


def test_a_death_in_a_put_ends_the_life() -> None:
    with a_pair() as world:
        world.disks.die_at_call("a", 1)
        with pytest.raises(LifeEnded):
            put(world, b"body")
        assert not world.is_open("a")
        assert world.start("a", BrokerRole.SYNC_MASTER)
