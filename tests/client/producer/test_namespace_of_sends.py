"""A namespace is put before topics and groups on the way out, and nobody sees it who did not ask for it."""

from __future__ import annotations

import pytest

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.selectors import queue_by_hash
from rocketpy.client.results import LocalTransactionState
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    SendMessageRequestHeaderV2,
)
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import until

WRAPPED = f"NS%{TOPIC}"
QUEUE = MessageQueue(TOPIC, "broker-a", 1)


async def test_every_kind_of_send_has_the_namespace(cluster: FakeCluster) -> None:
    cluster.add_topic(WRAPPED)
    config = ClientConfig(namespace="NS", unit_mode=True)
    async with open_client(cluster.address, config=config) as client, client.producer("g") as producer:
        results = [
            await producer.send(Message(TOPIC, b"x"), queue=QUEUE),
            await producer.send(Message(TOPIC, b"x"), queue=queue_by_hash(1)),
            await producer.send_batch([Message(TOPIC, b"x")], queue=QUEUE),
            await producer.send_nowait(Message(TOPIC, b"x"), queue=QUEUE),
        ]
        async with producer.batching() as batches:
            results.append(await batches.send(Message(TOPIC, b"x"), queue=QUEUE))
            results.append(await batches.send(Message(TOPIC, b"x"), queue=queue_by_hash(1)))
        assert QUEUE in await producer.publish_queues(TOPIC)
        with pytest.raises(ClientError, match="not equal"):
            await producer.send(Message(TOPIC, b"x"), queue=MessageQueue("Other", "broker-a", 0))
        await producer.send_oneway(Message(TOPIC, b"x"), queue=QUEUE)
        await until(lambda: len(cluster.broker.queues[WRAPPED, 1]) == 7)
    assert {each.message_queue for each in results} == {QUEUE}
    assert {each.properties["INSTANCE_ID"] for each in cluster.broker.messages(WRAPPED)} == {"NS"}
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        for request in cluster.broker.asked(code):
            header = read_header(request, SendMessageRequestHeaderV2)
            assert (header.topic, header.producer_group, header.unit_mode) == (WRAPPED, "NS%g", True)
    groups = {group.group_name for each in cluster.broker.heartbeats for group in each.producer_data_set}
    assert groups <= {"NS%g"}


async def test_a_transaction_has_the_namespace_and_its_check_does_not_see_it(cluster: FakeCluster) -> None:
    cluster.add_topic(WRAPPED)
    cluster.broker.register(RequestCode.END_TRANSACTION, lambda connection, request: None)
    topics: list[str] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        topics.append(message.topic)
        return LocalTransactionState.COMMIT_MESSAGE

    config = ClientConfig(namespace="NS")
    async with (
        open_client(cluster.address, config=config) as client,
        client.transaction_producer("g", check=check) as producer,
    ):
        async with producer.transaction(Message(TOPIC, b"x")) as transaction:
            await transaction.commit()
        header = CheckTransactionStateRequestHeader(tran_state_table_offset=5, commit_log_offset=8332)
        half = MessageExt(WRAPPED, b"half", {"PGROUP": "NS%g", "UNIQ_KEY": "A" * 32})
        request = make_request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(half))
        cluster.broker.peers[-1].oneway(request)
        await until(lambda: len(cluster.broker.asked(RequestCode.END_TRANSACTION)) == 2)
    for end in cluster.broker.asked(RequestCode.END_TRANSACTION):
        assert read_header(end, EndTransactionRequestHeader).producer_group == "NS%g"
    assert topics == [TOPIC]
    assert len(cluster.broker.messages(WRAPPED)) == 1, "the half message"


async def test_the_address_of_an_instance_names_its_namespace() -> None:
    async with opened("MQ_INST_1_2.region.example.com:80") as instance:
        assert instance.namespace == "MQ_INST_1_2"
    async with opened("MQ_INST_1_2.region.example.com:80", namespace="mine") as instance:
        assert instance.namespace == "mine"
