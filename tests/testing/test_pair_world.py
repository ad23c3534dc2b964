"""Replicating stores as plain calls: nothing moves between two of them, and every fault is seen by the model."""

from __future__ import annotations

import pytest

from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.client import HAState
from rocketpy.store.ha.protocol import encode_frame_header, encode_report
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.pair_world import PairWorld
from rocketpy.testing.replication_model import Invariant, ReplicationBroken
from rocketpy.testing.sim.network import Link
from rocketpy.testing.store_world import LifeEnded
from tests.testing.replicas import CONFIG, a_pair, put

OK, TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_SLAVE_TIMEOUT
UNAVAILABLE = PutMessageStatus.SLAVE_NOT_AVAILABLE


def alarm_of(world: PairWorld, slave: str = "b") -> str:
    client = world.replica(slave).client
    assert client is not None
    return client.statistics().alarm


def state_of(world: PairWorld, slave: str = "b") -> HAState:
    client = world.replica(slave).client
    assert client is not None
    return client.statistics().state


def test_nothing_moves_between_two_calls() -> None:
    with a_pair() as world:
        put(world, b"body")
        assert world.answers == []
        assert world.model.logs["b"] == {}
        world.pass_time(1)
        assert world.answers == [OK]
        assert world.model.logs["b"] == world.model.logs["a"] != {}


def test_every_kind_of_message_has_its_unit_on_the_slave() -> None:
    with a_pair() as world:
        world.put("a", "T", 1, b"body", keys=["k"], tags="t")
        world.put("a", "T", 0, b"body", delay_level=2)
        world.put("a", "T", 0, b"prepared", sys_flag=4)
        world.put_batch("a", "T", 0, [b"one", b"two"])
        world.pass_time(1)
        assert world.answers == [OK] * 4
        world.compare_units()
        assert len(world.model.logs["b"]) == 5


def test_a_key_is_found_on_both_sides() -> None:
    with a_pair() as world:
        world.put("a", "T", 1, b"body", keys=["k"])
        world.put("a", "T", 1, b"body", keys=["other"])
        world.pass_time(1)
        found: dict[str, int] = {}
        world.model.finds = lambda name, topic, key, offsets: found.update({name: len(offsets)})  # type: ignore[method-assign]
        world.search("T", "k")
        assert found == {"a": 1, "b": 1}


def test_without_a_slave_the_answer_says_so() -> None:
    with a_pair() as world:
        world.kill("b")
        world.pass_time(1)
        put(world, b"body")
        assert world.answers == [UNAVAILABLE]


def test_a_cut_holds_the_log_back_until_it_is_healed() -> None:
    with a_pair() as world:
        world.cut("a", "b")
        put(world, b"body")
        world.pass_time(3.5)
        assert world.answers == [TIMEOUT]
        assert world.model.logs["b"] == {}
        world.heal()
        world.pass_time(8)
        assert world.model.logs["b"] == world.model.logs["a"]


def test_a_one_way_cut_holds_back_the_reports_only() -> None:
    with a_pair() as world:
        world.cut("b", "a", one_way=True)
        put(world, b"body")
        world.pass_time(1)
        assert world.model.logs["b"] == world.model.logs["a"]
        assert world.answers == []


def test_a_slow_link_is_slow() -> None:
    with a_pair() as world:
        world.slow_down("a", "b", Link(delay_s=0.5))
        put(world, b"body")
        world.pass_time(0.4)
        assert world.answers == []
        world.pass_time(0.2)
        assert world.answers == [OK]


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


def test_a_death_in_a_put_ends_the_life() -> None:
    with a_pair() as world:
        world.die_at_call("a", 1)
        with pytest.raises(LifeEnded):
            put(world, b"body")
        assert not world.is_open("a")
        assert world.start("a", BrokerRole.SYNC_MASTER)


def test_a_death_can_be_taken_back() -> None:
    with a_pair() as world:
        world.die_at_call("a", 1)
        world.stay_alive("a")
        put(world, b"body")


def test_a_failed_call_ends_the_life_of_a_slave() -> None:
    with a_pair() as world:
        world.fail_call("b", "write", 1)
        put(world, b"body")
        world.pass_time(1)
        assert not world.is_open("b")
        assert "b" not in world.faulty


def test_a_full_disk_ends_no_life() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.pass_time(1)
        world.fill_disk("b", 0)
        for _ in range(12):
            put(world, b"x" * 900)
        world.pass_time(1)
        assert world.is_open("b")
        assert "no space" in alarm_of(world) or "free" in alarm_of(world)
        world.free_disk("b")
        world.calm()
        assert world.model.logs["b"] == world.model.logs["a"]


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


def test_a_forged_report_is_no_acknowledgement() -> None:
    with a_pair() as world:
        world.kill("b")
        world.pass_time(6)
        world.forge("a", encode_report(0), is_new=True)
        world.pass_time(0.1)
        put(world, b"body")
        world.forge("a", encode_report(1 << 40), is_new=False)
        world.pass_time(4)
        assert world.answers == [TIMEOUT]


def test_a_lie_is_not_stored() -> None:
    with a_pair() as world:
        asked: list[int] = []

        def frames(offset: int) -> bytes:
            asked.append(offset)
            return encode_frame_header(offset, 100) + bytes(100)

        put(world, b"body")
        world.pass_time(1)
        world.lie("b", frames)
        end = world.replica("a").shown().end_offset
        assert asked[0] == end
        world.calm()
        assert world.replica("b").shown().end_offset == end


def test_a_producer_may_wait_for_what_was_written_before() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.pass_time(1)
        world.wait_again("a")
        assert world.answers == [OK, OK]


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
        assert world.answers == [UNAVAILABLE, OK]
