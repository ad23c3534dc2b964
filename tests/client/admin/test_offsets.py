"""Bounds of queues and progress of groups."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokersError, ClientError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster

QUEUE = MessageQueue(T, BROKER, 0)


async def test_a_group_that_nobody_knows_or_that_has_no_offset(real: RealScene) -> None:
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.offsets.progress("nobody")
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.offsets.clone("nobody", "g", T)
    await real.admin.topics.create("%RETRY%idle", queue_nums=1)
    with pytest.raises(ClientError, match="maybe the consumer not consume any message") as caught:
        await real.admin.offsets.progress("idle")
    assert caught.value.response_code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_offsets_are_cloned_from_a_group_that_is_offline_if_that_is_said(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    code = RequestCode.CLONE_GROUP_OFFSET
    cluster.add_topic("%RETRY%source")
    cluster.broker.answer(code)
    assert await admin.offsets.clone("source", "target", TOPIC, offline=True) == [cluster.broker.address]
    assert [each.ext_fields for each in cluster.broker.asked(code)] == [
        {"srcGroup": "source", "destGroup": "target", "topic": TOPIC, "offline": "true"}
    ]


async def test_the_progress_on_several_brokers_is_one_and_a_missing_part_an_error(two_brokers: FakeCluster) -> None:
    code = RequestCode.GET_CONSUME_STATS
    two_brokers.add_topic("%RETRY%g")
    for broker in two_brokers.brokers:
        table = {MessageQueue(TOPIC, broker.name, 0): OffsetWrapper(10, 4)}
        body = encode_body(ConsumeStats(table, 1.5))
        broker.answer(code, body)
    async with open_admin_client(two_brokers.address) as admin:
        stats = await admin.offsets.progress("g", TOPIC)
        assert two_brokers.brokers[0].asked(code)[0].ext_fields == {"consumerGroup": "g", "topic": TOPIC}
        assert ({each.broker_name for each in stats.offset_table}, stats.consume_tps) == ({"broker-a", "broker-b"}, 3.0)
        two_brokers.brokers[1].refuse(code, ResponseCode.SYSTEM_ERROR, "broken")
        with pytest.raises(BrokersError, match=r"1 of 2 failed: .*broken") as caught:
            await admin.offsets.progress("g")
        (result,) = caught.value.results.values()
        assert isinstance(result, ConsumeStats)
