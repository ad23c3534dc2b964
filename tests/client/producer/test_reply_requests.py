"""The requester's half of request and reply; with a broker, and with replies, in ``tests/client/test_replies.py``."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.reply_requests import ReplyRequests, Send
from rocketpy.client.producer.send_request import SendRequest, SendRequestMaker
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.errors import BrokerError, ClientError, NoReplyError
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import seconds_of


async def ask(cluster: FakeCluster, send: Send, timeout_s: float) -> None:
    async with opened(cluster.address) as instance:
        maker = SendRequestMaker(instance=instance, group="g", config=ProducerConfig())
        requests = ReplyRequests(instance=instance, maker=maker, template=TopicTemplate())
        await requests.request(Message(TOPIC, b"?"), timeout_s, send)


async def test_the_send_has_what_is_left_of_the_time_and_the_wait_the_rest(
    cluster: FakeCluster, mock_clock: MockClock
) -> None:
    sent: list[float] = []

    async def send(request: SendRequest, seconds: float) -> None:
        sent.append(seconds)
        await trio.sleep(1)

    async def ask_in_vain() -> None:
        with pytest.raises(NoReplyError, match="OK, but wait reply message timeout, 4000 ms"):
            await ask(cluster, send, 4)

    assert 4 <= await seconds_of(ask_in_vain, lambda: sent, mock_clock) < 8
    assert len(sent) == 1
    assert 0 < sent[0] <= 4


async def test_a_send_that_fails_is_the_cause_of_the_failure(cluster: FakeCluster) -> None:
    failure = BrokerError(2, "busy", "there")

    async def send(request: SendRequest, seconds: float) -> None:
        raise failure

    with pytest.raises(ClientError, match="send request message to <TopicTest> fail: CODE: 2  DESC: busy") as caught:
        await ask(cluster, send, 4)
    assert caught.value.__cause__ is failure
