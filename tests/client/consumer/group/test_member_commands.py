"""What a lite pull consumer answers when its broker asks; :mod:`test_broker_commands` has the other members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.client.client import open_lite_pull_consumer
from rocketpy.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.bodies.running import ConsumerRunningInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import LITE_FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS


@asynccontextmanager
async def member(cluster: FakeCluster) -> AsyncIterator[LitePullConsumer]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_lite_pull_consumer(cluster.address, group="g", topics=[TOPIC], consumer=LITE_FIRST) as consumer:
            await consumer.wait_assigned()
            yield consumer


async def asked(cluster: FakeCluster, code: RequestCode, header: object) -> RemotingCommand:
    return await cluster.broker.peers[0].request(make_request(code, header), PATIENCE_SECONDS)


async def test_offsets_that_are_committed_are_reported_by_topic(cluster: FakeCluster) -> None:
    cluster.broker.put(TOPIC, 0, b"1")
    async with member(cluster) as consumer:
        await consumer.poll()
        await consumer.commit()
        header = GetConsumerStatusRequestHeader(topic=TOPIC, group="g")
        answer = await asked(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
    queue = MessageQueue(TOPIC, "broker-a", 0)
    assert decode_body(answer.body, GetConsumerStatusBody).message_queue_table == {queue: 1}


async def test_a_report_has_settings_and_subscriptions(cluster: FakeCluster) -> None:
    async with member(cluster):
        header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="")
        answer = await asked(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    info = decode_body(answer.body, ConsumerRunningInfo)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert info.properties["PROP_NAMESERVER_ADDR"] == f"{cluster.address};"
    assert info.properties["pullBatchSize"] == "10"
    assert info.properties["autoCommit"] == "true"
    assert [(each.topic, each.sub_string) for each in info.subscription_set] == [(TOPIC, "*")]


@pytest.mark.parametrize("group", ["g", "other"])
async def test_there_is_no_handler_that_could_consume_a_message(cluster: FakeCluster, group: str) -> None:
    async with member(cluster):
        header = ConsumeMessageDirectlyResultRequestHeader(consumer_group=group, client_id="c")
        answer = await asked(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
