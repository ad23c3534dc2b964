"""Hooks see each attempt; only those that forbid change anything."""

from __future__ import annotations

import pytest

from rocketpy.client.client import open_client
from rocketpy.client.hooks import CommunicationMode, MessageType, SendMessageContext
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendStatus
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster


class Recorder:
    """Notes what it is shown, and may fail."""

    hook_name = "recorder"

    def __init__(self, *, fails: bool = False) -> None:
        self.before: list[SendMessageContext] = []
        self.after: list[SendMessageContext] = []
        self._fails = fails

    def send_message_before(self, context: SendMessageContext) -> None:
        assert context.send_result is None
        self.before.append(context)
        if self._fails:
            raise AssertionError("before")

    def send_message_after(self, context: SendMessageContext) -> None:
        self.after.append(context)
        if self._fails:
            raise ValueError("after")


class Forbids:
    """Refuses what is red."""

    hook_name = "forbids"

    def check_forbidden(self, context: SendMessageContext) -> None:
        if context.messages[0].body == b"red":
            raise ClientError(403, "no red messages")


async def test_a_hook_sees_before_and_after(cluster: FakeCluster) -> None:
    hook = Recorder()
    async with open_client(cluster.address) as client, client.producer("p", send_hooks=[hook]) as producer:
        result = await producer.send(Message(TOPIC, b"x", {"DELAY": "1"}))
        await producer.send_nowait(Message(TOPIC, b"y"))
        await producer.send_oneway(Message(TOPIC, b"z"))
        await producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
    assert hook.after == hook.before
    sync, later, oneway, batch = hook.after
    assert (sync.producer_group, sync.broker_address) == ("p", cluster.broker.address)
    assert (sync.send_result, sync.exception, sync.message_queue) == (result, None, result.message_queue)
    assert sync.messages[0].properties["UNIQ_KEY"] == result.msg_id
    assert (sync.message_type, later.message_type) == (MessageType.DELAY_MSG, MessageType.NORMAL_MSG)
    assert [each.communication_mode for each in hook.after] == [
        CommunicationMode.SYNC,
        CommunicationMode.ASYNC,
        CommunicationMode.ONEWAY,
        CommunicationMode.SYNC,
    ]
    assert oneway.send_result is None
    assert [each.body for each in batch.messages] == [b"1", b"2"]


async def test_each_attempt_is_shown(two_brokers: FakeCluster) -> None:
    hook = Recorder()
    for broker in two_brokers.brokers:
        broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR, "no")
    config = ProducerConfig(retry_times_when_send_failed=1)
    async with (
        open_client(two_brokers.address) as client,
        client.producer("p", config=config, send_hooks=[hook]) as producer,
    ):
        with pytest.raises(BrokerError):
            await producer.send(Message(TOPIC, b"x"))
    assert {each.message_queue.broker_name for each in hook.after} == {"broker-a", "broker-b"}
    assert all(isinstance(each.exception, BrokerError) for each in hook.after)


async def test_a_hook_that_fails_is_logged_and_changes_nothing(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_client(cluster.address) as client,
        client.producer("p", send_hooks=[Recorder(fails=True)]) as producer,
    ):
        assert (await producer.send(Message(TOPIC, b"x"))).status is SendStatus.SEND_OK
    assert [each.getMessage().partition(" failed")[0] for each in caplog.records] == [
        "sendMessageHook recorder, before a send,",
        "sendMessageHook recorder, after a send,",
    ]


async def test_what_is_forbidden_reaches_the_sender_and_no_broker(cluster: FakeCluster) -> None:
    async with (
        open_client(cluster.address) as client,
        client.producer("p", check_forbidden_hooks=[Forbids()]) as producer,
    ):
        for send in (producer.send, producer.send_nowait, producer.send_oneway):
            with pytest.raises(ClientError, match="no red messages"):
                await send(Message(TOPIC, b"red"))
        await producer.send(Message(TOPIC, b"blue"))
    assert cluster.broker.bodies(TOPIC) == [b"blue"]
