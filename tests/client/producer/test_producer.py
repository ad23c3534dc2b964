"""Sending: what travels, what is refused beforehand, what is repeated and what is not."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest

from rocketpy.client.client import open_producer
from rocketpy.client.producer.config import RETRY_RESPONSE_CODES, ProducerConfig
from rocketpy.client.producer.producer import Producer
from rocketpy.client.results import SendStatus
from rocketpy.errors import (
    BrokerError,
    ClientError,
    LocalProtocolError,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.compression import CompressionType, compression_type
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.stored_message import decode_message, encode_message
from rocketpy.remoting.local_address import outgoing_address, packed_address
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeBroker, FakeCluster

SEND = RequestCode.SEND_MESSAGE_V2


def headers(broker: FakeBroker, code: int = SEND) -> list[SendMessageRequestHeaderV2]:
    """The headers of the sends that a broker got."""
    return [read_header(each, SendMessageRequestHeaderV2) for each in broker.asked(code)]


async def test_a_message_arrives_as_it_was_given(cluster: FakeCluster) -> None:
    message = Message(TOPIC, b"hello", {"TAGS": "a", "KEYS": "k1 k2", "colour": "blue"}, flag=7)
    async with open_producer(cluster.address, group="p") as producer:
        result = await producer.send(message)
    (stored,) = cluster.broker.messages(TOPIC)
    assert stored.body == b"hello"
    assert stored.properties == {
        "TAGS": "a",
        "KEYS": "k1 k2",
        "colour": "blue",
        "WAIT": "true",
        "UNIQ_KEY": result.msg_id,
    }
    assert message.properties == {"TAGS": "a", "KEYS": "k1 k2", "colour": "blue"}, "the caller's message is untouched"
    assert result.status is SendStatus.SEND_OK
    assert result.message_queue == MessageQueue(TOPIC, "broker-a", stored.queue_id)
    assert (result.queue_offset, result.offset_msg_id) == (0, stored.offset_msg_id)
    assert result.region_id == "Region1"
    (header,) = headers(cluster.broker)
    assert (header.producer_group, header.flag, header.default_topic, header.default_topic_queue_nums) == (
        "p",
        7,
        "TBW102",
        4,
    )
    assert (header.broker_name, header.batch, header.unit_mode, header.reconsume_times) == ("broker-a", False, False, 0)


async def test_unique_keys_name_address_and_process_and_never_repeat(producer: Producer) -> None:
    keys = [(await producer.send(Message(TOPIC, b"x"))).msg_id for _ in range(50)]
    assert len(set(keys)) == 50
    prefix = packed_address(outgoing_address()).hex().upper() + f"{os.getpid() & 0xFFFF:04X}"
    assert all(key.startswith(prefix) for key in keys)


async def test_a_unique_key_of_the_caller_is_kept(producer: Producer) -> None:
    assert (await producer.send(Message(TOPIC, b"x", {"UNIQ_KEY": "A" * 32}))).msg_id == "A" * 32


async def test_a_body_just_below_the_limit_travels_as_it_is(cluster: FakeCluster, producer: Producer) -> None:
    await producer.send(Message(TOPIC, b"x" * 4095))
    (stored,) = cluster.broker.messages(TOPIC)
    assert (stored.body, compression_type(stored.sys_flag)) == (b"x" * 4095, None)


@pytest.mark.parametrize("size", [4096, 300_000])
async def test_a_large_body_travels_compressed(cluster: FakeCluster, size: int, producer: Producer) -> None:
    body = os.urandom(100) * (size // 100) + b"x" * (size % 100)
    await producer.send(Message(TOPIC, body))
    (stored,) = cluster.broker.messages(TOPIC)
    assert compression_type(stored.sys_flag) is CompressionType.ZLIB
    assert len(stored.body) < len(body)
    assert decode_message(encode_message(stored)).body == body


@pytest.mark.parametrize("kind", CompressionType)
@pytest.mark.parametrize("size", [5_000, 300_000])
async def test_the_algorithm_and_its_level_are_settings(cluster: FakeCluster, kind: CompressionType, size: int) -> None:
    body = os.urandom(100) * (size // 100)
    config = ProducerConfig(compress_type=kind, compress_level=1)
    async with open_producer(cluster.address, producer=config) as producer:
        await producer.send(Message(TOPIC, body))
        await producer.send_nowait(Message(TOPIC, body))
    for stored in cluster.broker.messages(TOPIC):
        assert compression_type(stored.sys_flag) is kind
        assert decode_message(encode_message(stored)).body == body


@pytest.mark.parametrize("size", [5_000, 300_000])
async def test_an_algorithm_whose_package_is_missing_is_named(
    cluster: FakeCluster, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    config = ProducerConfig(compress_type=CompressionType.LZ4, back_pressure_for_async_send_num=1)
    async with open_producer(cluster.address, producer=config) as producer:
        for send in (producer.send, producer.send_nowait, producer.send_oneway):
            with pytest.raises(LocalProtocolError, match="install the package lz4"):
                await send(Message(TOPIC, bytes(size)))
        await producer.send_nowait(Message(TOPIC, b"small"))
    assert cluster.broker.bodies(TOPIC) == [b"small"]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Message("", b"x"), "blank"),
        (Message("a b", b"x"), "illegal"),
        (Message(TOPIC, b""), "length is zero"),
        (Message(TOPIC, b"x" * 101), "MAX: 100, found 101"),
        (Message(TOPIC, b"x", {"a": "b\x02c"}), "separates properties"),
        (Message(TOPIC, b"x", {"a": "b" * 32767}), "at most 32767|the limit is 32767"),
    ],
)
async def test_what_no_broker_would_accept_is_refused_before_any_request(
    cluster: FakeCluster, message: Message, fault: str
) -> None:
    async with open_producer(cluster.address, producer=ProducerConfig(max_message_size=100)) as producer:
        with pytest.raises(ClientError, match=fault):
            await producer.send(message)
        with pytest.raises(ClientError, match=fault):
            await producer.send_batch([message])
    assert cluster.name_server.requests == []


# ---- batches -------------------------------------------------------------------------------------------------------


async def test_a_batch_lies_side_by_side_in_one_queue(cluster: FakeCluster, producer: Producer) -> None:
    messages = [Message(TOPIC, b"%d" % number, {"n": str(number)}, flag=number) for number in range(5)]
    result = await producer.send_batch(messages)
    stored = cluster.broker.messages(TOPIC)
    assert [each.body for each in stored] == [each.body for each in messages]
    assert {each.queue_id for each in stored} == {result.message_queue.queue_id}
    assert result.msg_id == ",".join(each.properties["UNIQ_KEY"] for each in stored)
    assert result.offset_msg_id == ",".join(each.offset_msg_id for each in stored)
    (header,) = headers(cluster.broker, RequestCode.SEND_BATCH_MESSAGE)
    assert (header.batch, header.properties) == (True, "WAIT\x01true")


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "it is empty"),
        ([Message(TOPIC, b"x"), Message("Other", b"x")], "should be the same: TopicTest and Other"),
        ([Message(TOPIC, b"x"), Message(TOPIC, b"x", {"WAIT": "false"})], "waitStoreMsgOK"),
        ([Message(TOPIC, b"x", {"DELAY": "3"})], "TimeDelayLevel is not supported"),
        ([Message("%RETRY%g", b"x")], "Retry Group is not supported"),
        ([Message(TOPIC, b"x", {"a": "b" * 32767})], "32767 bytes of properties"),
    ],
)
async def test_what_cannot_be_one_batch_is_refused(
    cluster: FakeCluster, messages: list[Message], fault: str, producer: Producer
) -> None:
    with pytest.raises(ClientError, match=f"Failed to initiate the MessageBatch: .*{fault}") as caught:
        await producer.send_batch(messages)
    assert caught.value.response_code == ResponseCode.MESSAGE_ILLEGAL
    assert cluster.broker.requests == []


async def test_a_batch_is_measured_as_a_whole(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address, producer=ProducerConfig(max_message_size=1000)) as producer:
        with pytest.raises(ClientError, match="MAX: 1000"):
            await producer.send_batch([Message(TOPIC, b"x" * 500)] * 2)


async def test_an_undelayed_batch_with_the_same_wait_passes(cluster: FakeCluster, producer: Producer) -> None:
    await producer.send_batch([Message(TOPIC, b"x", {"DELAY": "0", "WAIT": "false"})] * 2)
    assert cluster.broker.bodies(TOPIC) == [b"x", b"x"]


# ---- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_weaker_status_means_stored_and_is_not_repeated(
    cluster: FakeCluster, code: int, producer: Producer
) -> None:
    cluster.broker.stored_as = code
    result = await producer.send(Message(TOPIC, b"x"))
    assert result.status.value == code
    assert len(cluster.broker.asked(SEND)) == 1


ANOTHER_BROKER = ProducerConfig(retry_another_broker_when_not_store_ok=True)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_weaker_status_may_be_repeated_on_another_broker(two_brokers: FakeCluster, code: int) -> None:
    """What is stored stays there: a consumer sees the message twice."""
    first, second = two_brokers.brokers
    first.stored_as = code
    async with open_producer(two_brokers.address, producer=ANOTHER_BROKER) as producer:
        results = [await producer.send(Message(TOPIC, b"x")) for _ in range(4)]
    assert {(each.status, each.message_queue.broker_name) for each in results} == {(SendStatus.SEND_OK, "broker-b")}
    assert len(second.bodies(TOPIC)) == 4
    assert len(first.bodies(TOPIC)) > 0


async def test_if_no_broker_stores_it_better_the_last_result_counts(two_brokers: FakeCluster) -> None:
    for broker, code in zip(two_brokers.brokers, (11, 12), strict=True):
        broker.stored_as = code
    async with open_producer(two_brokers.address, producer=ANOTHER_BROKER) as producer:
        result = await producer.send(Message(TOPIC, b"x"))
        assert sum(len(broker.asked(SEND)) for broker in two_brokers.brokers) == 3
        chosen = await producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "broker-a", 0))
    assert result.status.value == {"broker-a": 11, "broker-b": 12}[result.message_queue.broker_name]
    assert chosen.status is SendStatus.SLAVE_NOT_AVAILABLE
    assert sum(len(broker.asked(SEND)) for broker in two_brokers.brokers) == 4, "a chosen queue has one attempt"


@pytest.mark.parametrize("code", [2, ResponseCode.SYSTEM_ERROR])
async def test_a_stored_message_is_no_failure_whatever_the_other_broker_says(
    two_brokers: FakeCluster, code: int
) -> None:
    first, second = two_brokers.brokers
    async with open_producer(two_brokers.address, producer=ANOTHER_BROKER) as producer:
        while not second.asked(SEND) or not first.asked(SEND):
            await producer.send(Message(TOPIC, b"turn"))
        first.stored_as = 11
        second.refuse(SEND, code)
        results = []
        for _ in range(2):  # one of them begins with the first broker
            with suppress(BrokerError):
                results.append(await producer.send(Message(TOPIC, b"x")))
    assert {each.status for each in results} == {SendStatus.SLAVE_NOT_AVAILABLE}


@pytest.mark.parametrize("code", sorted(RETRY_RESPONSE_CODES))
async def test_codes_that_mean_another_broker_may_do_it_are_repeated_there(two_brokers: FakeCluster, code: int) -> None:
    first, second = two_brokers.brokers
    first.refuse(SEND, code)
    async with open_producer(two_brokers.address) as producer:
        results = [await producer.send(Message(TOPIC, b"x")) for _ in range(4)]
    assert {each.message_queue.broker_name for each in results} == {"broker-b"}
    assert len(second.bodies(TOPIC)) == 4
    assert len(first.asked(SEND)) > 0


@pytest.mark.parametrize("code", [2, 13, 26, 1234])
async def test_every_other_code_is_final(two_brokers: FakeCluster, code: int) -> None:
    for broker in two_brokers.brokers:
        broker.refuse(SEND, code, "because")
    async with open_producer(two_brokers.address) as producer:
        with pytest.raises(BrokerError, match=f"CODE: {code}  DESC: because BROKER: 127"):
            await producer.send(Message(TOPIC, b"x"))
    assert sum(len(broker.asked(SEND)) for broker in two_brokers.brokers) == 1


async def test_three_attempts_then_the_last_failure_with_a_note(two_brokers: FakeCluster) -> None:
    for broker in two_brokers.brokers:
        broker.refuse(SEND, ResponseCode.SERVICE_NOT_AVAILABLE, "full")
    async with open_producer(two_brokers.address) as producer:
        with pytest.raises(BrokerError, match="full") as caught:
            await producer.send(Message(TOPIC, b"x"))
    assert "sent 3 times to topic TopicTest" in caught.value.__notes__[0]
    assert sorted(len(broker.asked(SEND)) for broker in two_brokers.brokers) == [1, 2], "brokers take turns"


async def test_repeating_keeps_the_unique_key(two_brokers: FakeCluster) -> None:
    for broker in two_brokers.brokers:
        broker.refuse(SEND, ResponseCode.SYSTEM_ERROR)
    async with open_producer(two_brokers.address) as producer:
        with pytest.raises(BrokerError):
            await producer.send(Message(TOPIC, b"x"))
    sent = [header.properties for broker in two_brokers.brokers for header in headers(broker)]
    assert len(sent) == 3
    assert len(set(sent)) == 1


async def test_a_chosen_queue_gets_it_or_none(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    queue = MessageQueue(TOPIC, "broker-b", 1)
    async with open_producer(two_brokers.address) as producer:
        assert queue in await producer.publish_queues(TOPIC)
        for _ in range(3):
            assert (await producer.send(Message(TOPIC, b"x"), queue=queue)).message_queue == queue
        second.refuse(SEND, ResponseCode.SERVICE_NOT_AVAILABLE)
        with pytest.raises(BrokerError):
            await producer.send(Message(TOPIC, b"x"), queue=queue)
        with pytest.raises(ClientError, match="message's topic not equal mq's topic"):
            await producer.send(Message("Other", b"x"), queue=queue)
        with pytest.raises(ClientError, match="not exist"):
            await producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "elsewhere", 0))
    assert first.asked(SEND) == []
    assert len(second.asked(SEND)) == 4
