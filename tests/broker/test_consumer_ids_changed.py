"""Members of a group that changed hear of it, in Java's own bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rocketpy.broker.consumer_ids_changed import notify_consumer_ids_changed
from rocketpy.broker.consumer_manager import GroupChange
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame
from tests.broker.broker_on_bytes import BrokerOnBytes, received
from tests.broker.test_golden_frames import FRAMES


@pytest.fixture
def broker(tmp_path: Path) -> BrokerOnBytes:
    return BrokerOnBytes(tmp_path)


def java_notices() -> list[RemotingCommand]:
    with gzip.open(FRAMES, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        decode_frame(bytes.fromhex(row["frame_hex"]))
        for row in rows
        if row["code"] == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    ]


def test_our_notice_is_java_s(broker: BrokerOnBytes) -> None:
    notices = java_notices()
    assert len(notices) > 10
    for java in notices:
        connection = broker.connect()
        group = (java.ext_fields or {})["consumerGroup"]
        notify_consumer_ids_changed(GroupChange(group, [connection]))
        (ours,) = received(connection)
        assert (ours.code, ours.is_oneway, ours.ext_fields, ours.body) == (
            java.code,
            java.is_oneway,
            java.ext_fields,
            java.body,
        )


def test_every_member_hears_of_it_once(broker: BrokerOnBytes) -> None:
    members = [broker.connect() for _ in range(3)]
    other = broker.connect()
    notify_consumer_ids_changed(GroupChange("G", members))
    assert [len(received(member)) for member in members] == [1, 1, 1]
    assert other.outgoing_size == 0


def test_a_member_that_has_gone_does_not_keep_it_from_the_others(broker: BrokerOnBytes) -> None:
    gone, there = broker.connect(), broker.connect()
    gone.close()
    notify_consumer_ids_changed(GroupChange("G", [gone, there]))
    assert len(received(there)) == 1


def test_a_group_without_members_is_nobody_to_tell(broker: BrokerOnBytes) -> None:
    connection = broker.connect()
    notify_consumer_ids_changed(GroupChange("G", []))
    assert connection.outgoing_size == 0
