"""Producers that are online: by group and by client id."""

from __future__ import annotations

from typing import cast

import attrs

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.protocol.codes import LanguageCode
from rocketpy.remoting.connection import Connection
from tests.broker.tables_of_a_broker import Tables


class Peer:
    """A fake connection: the tables use none of its methods."""


def client(channel: Peer, client_id: str = "p1") -> ClientChannelInfo:
    return ClientChannelInfo(channel, client_id, LanguageCode.GO, 409, 0.0)  # type: ignore[arg-type]


def test_members_of_a_group(tables: Tables) -> None:
    one, two = Peer(), Peer()
    assert tables.producers.members("g") is None
    assert tables.producers.register_producer("g", client(one, "p1"))
    assert tables.producers.register_producer("g", client(two, "p2"))
    assert not tables.producers.register_producer("g", client(two, "p2"))
    members = tables.producers.members("g")
    assert members is not None
    assert [each.client_id for each in members] == ["p1", "p2"]
    assert tables.producers.groups == ["g"]


def test_a_reply_finds_its_producer_until_it_has_left_its_last_group(tables: Tables) -> None:
    one = Peer()
    tables.producers.register_producer("g", client(one))
    tables.producers.register_producer("h", client(one))
    assert tables.producers.unregister_producer("g", one)  # type: ignore[arg-type]
    assert tables.producers.find_channel("p1") is one
    assert tables.producers.unregister_producer("h", one)  # type: ignore[arg-type]
    assert tables.producers.find_channel("p1") is None
    assert not tables.producers.unregister_producer("h", one)  # type: ignore[arg-type]


def test_the_newest_connection_of_an_id_counts(tables: Tables) -> None:
    old, new = Peer(), Peer()
    tables.producers.register_producer("g", client(old))
    tables.producers.register_producer("g", client(new))
    assert tables.producers.close_channel(old) == ["g"]  # type: ignore[arg-type]
    assert tables.producers.find_channel("p1") is new


def test_a_connection_that_takes_another_id_is_found_under_that_one_only(tables: Tables) -> None:
    one = Peer()
    tables.producers.register_producer("g", client(one, "p1"))
    tables.producers.register_producer("g", client(one, "p2"))
    assert tables.producers.find_channel("p1") is None
    assert tables.producers.find_channel("p2") is one


def test_no_id_outlives_its_connection_whatever_ids_its_heartbeats_have(tables: Tables) -> None:
    """One connection in two groups under two ids once left one of the ids in the table forever."""
    one = Peer()
    tables.producers.register_producer("g", client(one, "p1"))
    tables.producers.register_producer("h", client(one, "p2"))
    tables.producers.register_producer("i", client(one, "p2"))
    assert tables.producers.unregister_producer("h", one)  # type: ignore[arg-type]
    assert (tables.producers.find_channel("p1"), tables.producers.find_channel("p2")) == (one, one)
    assert tables.producers.close_channel(one) == ["g", "i"]  # type: ignore[arg-type]
    assert (tables.producers.find_channel("p1"), tables.producers.find_channel("p2")) == (None, None)


def test_with_an_access_key_only_connections_of_that_account_are_chosen(tables: Tables) -> None:
    """And those of peers that need no account."""
    channels = [_Channel() for _ in range(3)]
    for channel, access_key in zip(channels, ("the-owner", "another", None), strict=True):
        info = attrs.evolve(client(cast("Peer", channel)), access_key=access_key)
        tables.producers.register_producer("g", info)
    assert {tables.producers.available_channel("g", "the-owner") for _ in range(9)} == {channels[0], channels[2]}
    assert {tables.producers.available_channel("g", "unknown") for _ in range(9)} == {channels[2]}
    assert {tables.producers.available_channel("g") for _ in range(9)} == set(channels)
    assert tables.producers.available_channel("nobody", "the-owner") is None


def test_who_is_silent_for_more_than_120_seconds_is_found_once(tables: Tables) -> None:
    one, two = Peer(), Peer()
    for group in ("g", "h"):
        tables.producers.register_producer(group, client(one))
    tables.time.now += 1
    tables.producers.register_producer("g", client(two, "p2"))
    tables.time.now += 120
    assert tables.producers.scan_not_active_channel() == [one]


class _Channel:
    """A fake connection with what the choice of a channel uses."""

    def __init__(self, *, is_closed: bool = False, wants_reading: bool = True) -> None:
        self.is_closed = is_closed
        self.wants_reading = wants_reading


def _online(*channels: _Channel) -> ProducerManager:
    manager = ProducerManager(current_time=lambda: 0.0)
    for index, each in enumerate(channels):
        channel = cast(Connection, each)
        manager.register_producer("P", ClientChannelInfo(channel, f"c{index}", LanguageCode.JAVA, 400, 0.0))
    return manager


def _chosen(manager: ProducerManager, group: str = "P") -> object:
    return manager.available_channel(group)


def test_the_connections_of_a_group_take_turns() -> None:
    channels = [_Channel() for _ in range(3)]
    manager = _online(*channels)
    chosen = [_chosen(manager) for _ in range(6)]
    assert {chosen.count(each) for each in channels} == {2}
    assert _chosen(manager, "Q") is None


def test_three_tries_look_for_a_connection_that_takes_bytes() -> None:
    full, closed, free = _Channel(wants_reading=False), _Channel(is_closed=True), _Channel()
    assert all(_chosen(_online(full, closed, free)) is free for _ in range(3))
    assert _chosen(_online(closed, full)) is full, "better a full one than none"
    assert _chosen(_online(closed)) is None
    many = [_Channel(wants_reading=False) for _ in range(4)]
    manager = _online(*many, free)
    chosen = [_chosen(manager) for _ in range(5)]
    assert 0 < chosen.count(free) < 5, "three tries do not always find it"
