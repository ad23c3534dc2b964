"""Faults of disks: they happen where they were arranged, and end no life that they need not end."""

from __future__ import annotations

from tests.testing.replicas import a_pair, alarm_of, put


def test_a_death_can_be_taken_back() -> None:
    with a_pair() as world:
        world.disks.die_at_call("a", 1)
        world.disks.stay_alive("a")
        put(world, b"body")


def test_a_failed_call_ends_the_life_of_a_slave() -> None:
    with a_pair() as world:
        world.disks.fail_call("b", "write", 1)
        put(world, b"body")
        world.pass_time(1)
        assert not world.is_open("b")
        assert "b" not in world.faulty


def test_a_full_disk_ends_no_life() -> None:
    with a_pair() as world:
        put(world, b"body")
        world.pass_time(1)
        world.disks.fill("b", 0)
        for _ in range(12):
            put(world, b"x" * 900)
        world.pass_time(1)
        assert world.is_open("b")
        assert "no space" in alarm_of(world) or "free" in alarm_of(world)
        world.disks.free("b")
        world.calm()
        assert world.model.logs["b"] == world.model.logs["a"]
