"""The way back of messages that failed, and the copy where there is no way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from rocketpy.client.consumer.send_back import SendBack
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2
from rocketpy.protocol.message import MessageExt
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened

MESSAGE = MessageExt(
    TOPIC,
    b"body",
    {"UNIQ_KEY": "U1", "TAGS": "A", "TRAN_MSG": "true"},
    flag=5,
    queue_offset=3,
    physical_offset=777,
    reconsume_times=2,
    broker_name="broker-a",
)


@asynccontextmanager
async def send_back(cluster: FakeCluster, group: str = "g", namespace: str = "") -> AsyncIterator[SendBack]:
    async with opened(cluster.address, namespace=namespace) as instance:
        yield SendBack(instance=instance, group=group, max_reconsume_times=16, randomness=Random(1))


async def test_a_message_goes_back_by_its_physical_offset(cluster: FakeCluster) -> None:
    async with send_back(cluster) as back:
        assert await back.send_back(MESSAGE, 4)
    (header,) = cluster.broker.sent_back
    assert (header.offset, header.group, header.delay_level) == (777, "g", 4)
    assert (header.origin_msg_id, header.origin_topic) == ("U1", TOPIC)
    assert (header.max_reconsume_times, header.broker_name) == (16, "broker-a")
    assert cluster.broker.asked(RequestCode.SEND_MESSAGE_V2) == []


@pytest.mark.parametrize(("delay_level", "times"), [(0, 3), (-1, 16)])
async def test_a_copy_goes_to_the_retry_topic_when_the_broker_refuses(
    cluster: FakeCluster, delay_level: int, times: int
) -> None:
    """A dead letter's copy has no retries left, so that the broker makes it one."""
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
    cluster.add_topic("%RETRY%g", 1)
    async with send_back(cluster) as back:
        assert await back.send_back(MESSAGE, delay_level)
    (copy,) = cluster.broker.messages("%RETRY%g")
    assert copy.body == b"body"
    assert copy.properties == {
        "UNIQ_KEY": "U1",
        "TAGS": "A",
        "RETRY_TOPIC": TOPIC,
        "ORIGIN_MESSAGE_ID": "U1",
        "RECONSUME_TIME": str(times),
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "5",
    }
    (request,) = cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)
    header = read_header(request, SendMessageRequestHeaderV2)
    assert (header.producer_group, header.flag, header.reconsume_times) == ("CLIENT_INNER_PRODUCER", 5, times)
    assert header.max_reconsume_times == 16


async def test_a_message_that_nobody_takes_stays_here(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY)
    cluster.add_topic("%RETRY%g", 1)
    async with send_back(cluster) as back:
        assert not await back.send_back(MESSAGE)
    assert len(cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)) == 3


async def test_a_copy_keeps_the_first_message_id(cluster: FakeCluster) -> None:
    cluster.add_topic("%RETRY%g", 1)
    again = MessageExt(TOPIC, b"body", {"UNIQ_KEY": "U2", "ORIGIN_MESSAGE_ID": "U0"}, broker_name="broker-a")
    async with send_back(cluster) as back:
        assert await back.send_copy(again, reconsume_times=7)
    (copy,) = cluster.broker.messages("%RETRY%g")
    assert (copy.properties["ORIGIN_MESSAGE_ID"], copy.properties["RECONSUME_TIME"]) == ("U0", "7")
    assert copy.properties["DELAY"] == "3"


async def test_a_message_of_a_namespace_goes_back_to_it(cluster: FakeCluster) -> None:
    """Its topic has no namespace here, but at the brokers: a route of that name is asked for, and a copy names it."""
    wrapped = f"NS%{TOPIC}"
    cluster.add_topic(wrapped, 1)
    cluster.add_topic("%RETRY%NS%g", 1)
    del cluster.name_server.routes[TOPIC]
    async with send_back(cluster, group="NS%g", namespace="NS") as back:
        assert await back.send_back(MESSAGE)
        cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
        assert await back.send_back(MESSAGE)
    (header,) = cluster.broker.sent_back
    assert (header.origin_topic, header.group) == (wrapped, "NS%g")
    (copy,) = cluster.broker.messages("%RETRY%NS%g")
    assert copy.properties["RETRY_TOPIC"] == wrapped
