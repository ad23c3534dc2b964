"""Producers that are online: by group and by client id."""

from __future__ import annotations

from rocketpy.broker.client_channel import ClientChannelInfo
from rocketpy.protocol.codes import LanguageCode
from tests.broker.tables_of_a_broker import Tables


class Peer:
    """As much of a connection as the tables look at: nothing."""


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


def test_the_end_of_a_connection_leaves_all_its_groups(tables: Tables) -> None:
    one = Peer()
    for group in ("h", "g"):
        tables.producers.register_producer(group, client(one))
    assert tables.producers.close_channel(one) == ["g", "h"]  # type: ignore[arg-type]
    assert tables.producers.groups == []
    assert tables.producers.close_channel(one) == []  # type: ignore[arg-type]


def test_who_is_silent_for_more_than_120_seconds_is_found_once(tables: Tables) -> None:
    one, two = Peer(), Peer()
    for group in ("g", "h"):
        tables.producers.register_producer(group, client(one))
    tables.time.now += 1
    tables.producers.register_producer("g", client(two, "p2"))
    tables.time.now += 120
    assert tables.producers.scan_not_active_channel() == [one]
