"""A store with replication around it: what its log is read as, and how its lives end."""

from __future__ import annotations

import pytest

from rocketpy.store.config import BrokerRole
from rocketpy.testing.replica import records_in
from tests.store.ha.records import FILE, a_log, a_record
from tests.testing.replicas import CONFIG, a_pair, put


def test_records_follow_each_other_over_the_ends_of_files() -> None:
    content = a_log(20)
    assert len(content) > 2 * FILE
    records = dict(records_in(content, 0, FILE))
    assert b"".join(records.values()) == content
    assert [offset + len(record) for offset, record in records.items()] == [*list(records)[1:], len(content)]
    assert any(offset + len(record) == FILE for offset, record in records.items()), "a BLANK ends with its file"


@pytest.mark.parametrize("rest", [b"\0" * 100, a_record(0)[:50], b"\0\0\0\x04" + a_record(0)[4:], b"\x7f" * 8])
def test_records_end_before_what_is_none(rest: bytes) -> None:
    assert dict(records_in(a_record(0) + rest, 0, FILE)) == {0: a_record(0)}


def test_offsets_begin_where_the_log_does() -> None:
    assert list(dict(records_in(a_record(FILE), FILE, FILE))) == [FILE]


def test_a_death_in_a_disk_call_ends_the_process_as_a_kill_does() -> None:
    with a_pair() as world:
        world.disks.die_at_call("b", 1)
        put(world, b"body")
        world.pass_time(1)
        assert not world.is_open("b")
        assert world.replica("b").host.failure is None
        assert world.replica("b").host.disk.exists("/store/abort")


def test_a_tail_is_cut_by_opening_the_store_again() -> None:
    with a_pair(ha_truncate_diverged_log=True) as world:
        put(world, b"common")
        world.pass_time(1)
        common_end = world.replica("a").shown().end_offset
        world.kill("b")
        put(world, b"only here")
        world.kill("a")
        world.start("b", BrokerRole.ASYNC_MASTER)
        world.follow("b")
        put(world, b"only there", master="b")
        world.start("a", BrokerRole.SLAVE)
        world.calm()
        assert world.replica("a").life_count == 3
        assert world.replica("a").shown() == world.replica("b").shown()
        assert world.replica("a").shown().end_offset > common_end


def test_without_the_setting_a_tail_is_an_alarm() -> None:
    with a_pair() as world:
        world.kill("b")
        put(world, b"only here")
        world.start("b", BrokerRole.ASYNC_MASTER)
        world.kill("a")
        world.follow("b")
        put(world, b"only there", master="b")
        world.start("a", BrokerRole.SLAVE)
        world.calm()
        client = world.replica("a").client
        assert client is not None
        assert "have no record in common" in client.statistics().alarm


def test_the_role_of_the_configuration_is_not_used() -> None:
    assert CONFIG.broker_role is BrokerRole.ASYNC_MASTER
    with a_pair() as world:
        assert world.replica("b").is_slave
        assert not world.replica("a").is_slave
