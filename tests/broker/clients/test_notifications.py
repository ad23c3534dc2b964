"""Notifications to the members of a changed group, in Java's own bytes."""

from __future__ import annotations

import gzip
import json

import pytest
import trio

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.notifications import FRAMES_PER_TURN, ConsumerIdsChangedStatistics
from rocketpy.protocol.bodies.heartbeat import ConsumerData
from rocketpy.protocol.codes import LanguageCode, RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame
from rocketpy.remoting.connection import Connection
from tests.broker.broker_on_bytes import BrokerOnBytes, received
from tests.broker.test_golden_frames import FRAMES
from tests.turns import counted_turns


def java_notices() -> list[RemotingCommand]:
    with gzip.open(FRAMES, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        decode_frame(bytes.fromhex(row["frame_hex"]))
        for row in rows
        if row["code"] == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    ]


def join(broker: BrokerOnBytes, *groups: str, count: int = 1) -> list[Connection]:
    """Return new members of groups, without a heartbeat and without marking the groups."""
    members = [broker.connect() for _ in range(count)]
    for member in members:
        for group in groups:
            client = ClientChannelInfo(member, member.peer, LanguageCode.JAVA, 409, 0.0)
            broker.tables.consumers.register_consumer(client, ConsumerData(group))
    return members


def test_our_notice_is_java_s(broker: BrokerOnBytes) -> None:
    notices = java_notices()
    assert len(notices) > 10
    for java in notices:
        group = (java.ext_fields or {})["consumerGroup"]
        (connection,) = join(broker, group)
        broker.notifications.changed(group)
        broker.notify_all()
        (ours,) = received(connection)
        assert (ours.code, ours.is_oneway, ours.ext_fields, ours.body) == (
            java.code,
            java.is_oneway,
            java.ext_fields,
            java.body,
        )
        connection.close()


def test_every_member_is_notified_once_however_often_the_group_changes(broker: BrokerOnBytes) -> None:
    members = join(broker, "G", count=3)
    other = broker.connect()
    for _ in range(5):
        broker.notifications.changed("G")
    assert [member.outgoing_size for member in members] == [0, 0, 0]  # nothing is sent inside a change
    broker.notify_all()
    assert [len(received(member)) for member in members] == [1, 1, 1]
    assert other.outgoing_size == 0
    assert broker.notifications.statistics() == ConsumerIdsChangedStatistics(3, 0)


def test_a_turn_sends_a_bounded_number_and_misses_no_change(broker: BrokerOnBytes) -> None:
    members = join(broker, "G", count=FRAMES_PER_TURN + 10)
    broker.notifications.changed("G")
    assert broker.notifications.notify_some()
    assert sum(len(received(member)) for member in members) == FRAMES_PER_TURN
    (late,) = join(broker, "G")
    broker.notifications.changed("G")
    assert broker.notifications.statistics().waiting_groups == 2
    broker.notify_all()
    assert len(received(late)) == 1
    assert [len(received(member)) for member in members] == [1] * FRAMES_PER_TURN + [2] * 10
    assert not broker.notifications.notify_some()


def test_a_member_that_has_gone_does_not_keep_it_from_the_others(broker: BrokerOnBytes) -> None:
    gone, left, *there = join(broker, "G", count=FRAMES_PER_TURN + 2)
    broker.notifications.changed("G")
    gone.mark_closed()
    broker.tables.consumers.unregister_consumer("G", left)
    broker.notify_all()
    assert {len(received(member)) for member in there} == {1}
    assert left.outgoing_size == 0


def test_a_send_that_fails_ends_only_that_member(
    broker: BrokerOnBytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each end marks the group again, and the next send fails too: with 120 members that was a recursion."""
    members = join(broker, "G", count=1000)
    survivor, failing = members[500], members[:500] + members[501:]

    def flush(connection: Connection) -> None:
        if connection in failing:
            connection.close()

    monkeypatch.setattr(broker.transport, "flush", flush)
    monkeypatch.setattr(broker.transport, "on_close", broker.housekeeping.connection_closed)
    broker.notifications.changed("G")
    broker.notify_all()
    assert all(member.is_closed for member in failing)
    assert 1 <= len(received(survivor)) <= 1000 // FRAMES_PER_TURN + 2
    group = broker.tables.consumers.get_consumer_group_info("G")
    assert group is not None
    assert group.channels == [survivor]
    assert caplog.messages == []


def test_an_unexpected_failure_is_contained_in_one_member(
    broker: BrokerOnBytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, *others = join(broker, "G", count=3)

    def flush(connection: Connection) -> None:
        if connection is first:
            raise KeyError("a bug")

    monkeypatch.setattr(broker.transport, "flush", flush)
    broker.notifications.changed("G")
    broker.notify_all()
    assert [len(received(member)) for member in others] == [1, 1]
    assert caplog.messages == [
        f"notifying {first.peer} that group G has changed failed unexpectedly; only that was given up"
    ]


def test_a_group_without_members_costs_nothing(broker: BrokerOnBytes) -> None:
    broker.notifications.changed("G")
    assert not broker.notifications.notify_some()


async def test_others_run_while_the_members_of_many_groups_are_notified(
    broker: BrokerOnBytes, nursery: trio.Nursery
) -> None:
    """20 members of 500 groups, all of which change: 10,000 frames blocked the event loop for seconds."""
    groups = [f"G{number}" for number in range(100)]
    members = join(broker, *groups, count=20)
    await nursery.start(broker.notifications.run)
    async with counted_turns() as turns:
        for group in groups:
            broker.notifications.changed(group)
        while broker.notifications.statistics().waiting_groups:
            await trio.lowlevel.checkpoint()
    assert turns.count >= len(groups) * len(members) // FRAMES_PER_TURN - 1
    assert {len(received(member)) for member in members} == {100}
