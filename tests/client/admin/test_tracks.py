"""What groups have done with a message."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.tracks import TrackType
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.connection import Connection, ConsumerConnection
from rocketpy.protocol.bodies.group import GroupList
from rocketpy.protocol.bodies.heartbeat import ConsumeType
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_response
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster

QUEUE = MessageQueue(T, BROKER, 0)


async def kinds(real: RealScene, message: MessageExt) -> dict[str, TrackType]:
    return {each.consumer_group: each.track_type for each in await real.admin.track(message)}


async def test_each_group_of_a_topic_has_a_track(real: RealScene) -> None:
    _, sent = await real.send(Message(T, b"0"), Message(T, b"1", {"TAGS": "a"}))
    message = await real.admin.messages.view(sent.offset_msg_id)
    assert await real.admin.track(message) == []
    async with real.online("g", tags=("a", "b")):
        assert await kinds(real, message) == {"g": TrackType.NOT_ONLINE}, "it has no offset yet"
        await real.admin.offsets.commit(real.broker, "g", QUEUE, 1)
        assert await kinds(real, message) == {"g": TrackType.NOT_CONSUME_YET}
        await real.admin.offsets.commit(real.broker, "g", QUEUE, 2)
        assert await kinds(real, message) == {"g": TrackType.CONSUMED}
    (track,) = await real.admin.track(message)
    assert track.track_type is TrackType.NOT_ONLINE
    assert track.exception_desc is not None
    assert "CODE: 206" in track.exception_desc


async def test_a_message_whose_tag_is_not_subscribed_was_filtered(real: RealScene) -> None:
    (sent,) = await real.send(Message(T, b"0", {"TAGS": "c"}))
    message = await real.admin.messages.view(sent.offset_msg_id)
    await real.admin.offsets.commit(real.broker, "g", QUEUE, 1)
    async with real.online("g", tags=("a", "b")):
        assert await kinds(real, message) == {"g": TrackType.CONSUMED_BUT_FILTERED}


async def test_nothing_is_known_of_a_group_that_pulls(real: RealScene) -> None:
    (sent,) = await real.send(Message(T, b"0"))
    message = await real.admin.messages.view(sent.offset_msg_id)
    async with real.online("g", consume_type=ConsumeType.CONSUME_ACTIVELY):
        assert await kinds(real, message) == {"g": TrackType.PULL}


async def test_a_message_of_a_topic_that_is_gone_is_an_error(real: RealScene) -> None:
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.track(MessageExt("Gone", b"x"))


async def test_what_fails_for_one_group_is_part_of_its_track(cluster: FakeCluster, admin: AdminClient) -> None:
    groups = encode_body(GroupList(["a-strange", "b-broken", "c-unheard"]))
    strange = encode_body(ConsumerConnection([Connection("c", "127.0.0.1:1")]))
    answers = {"a-strange": strange, "b-broken": b"garbage"}
    cluster.broker.answer(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, groups)
    cluster.broker.register(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        lambda connection, request: make_response(request, body=answers[(request.ext_fields or {})["consumerGroup"]]),
    )
    for group in answers:
        cluster.add_topic(f"%RETRY%{group}")
    tracks = await admin.track(MessageExt(TOPIC, b"x"))
    assert [each.track_type for each in tracks] == [TrackType.UNKNOWN] * 3
    descriptions = [each.exception_desc for each in tracks]
    assert descriptions[0] is None
    assert "ConsumerConnection" in (descriptions[1] or "") or "JSON" in (descriptions[1] or "")
    assert f"CODE: {ResponseCode.TOPIC_NOT_EXIST.value}" in (descriptions[2] or "")
