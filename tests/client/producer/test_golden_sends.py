"""What our producer sends is, field by field, what Java's was recorded to send for the same call."""

from __future__ import annotations

import zlib
from functools import cache

import pytest

from rocketpy.client.client import open_client
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer
from rocketpy.protocol.batch import decode_batch_body
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.compression import CompressionType
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.properties import decode_properties
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.client.recorded_frames import recorded_frames
from tests.patience import until

CODES = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


@cache
def first_sends() -> dict[str, RemotingCommand]:
    """The first send of each scenario of the run ``json``."""
    return {
        each.scenario: each.command
        for each in reversed(recorded_frames())
        if each.run == "json" and each.request_code in CODES and each.kind != "response"
    }


async def send(producer: Producer, java: RemotingCommand, message: Message, queue: MessageQueue, scenario: str) -> None:
    """Make the call that Java made."""
    if scenario == "send-oneway":
        await producer.send_oneway(message, queue=queue)
    elif scenario == "send-async":
        await producer.send_nowait(message, queue=queue)
    elif java.code == RequestCode.SEND_BATCH_MESSAGE:
        items = decode_batch_body(java.body or b"")
        await producer.send_batch(
            [
                Message(message.topic, each.body, decode_properties(each.properties.decode()), each.flag)
                for each in items
            ],
            queue=queue,
        )
    else:
        await producer.send(message, queue=queue)


@pytest.mark.parametrize(
    "scenario",
    [
        "send-sync",
        "send-queue",
        "send-async",
        "send-oneway",
        "send-batch",
        "send-ordered",
        "send-delay",
        "send-compressed",
        "send-unicode",
    ],
)
async def test_a_send_has_the_fields_of_javas(scenario: str) -> None:
    java = first_sends()[scenario]
    assert java.ext_fields is not None
    properties = decode_properties(java.ext_fields["i"])
    body = java.body or b""
    config = ProducerConfig()
    if int(java.ext_fields["f"]):
        assert int(java.ext_fields["f"]) == CompressionType.ZLIB | 1
        body = zlib.decompress(body)
        config = ProducerConfig(compress_msg_body_over_howmuch=len(body))
    broker = java.ext_fields["n"]
    async with open_fake_cluster((broker,)) as cluster:
        cluster.add_topic(java.ext_fields["b"])
        message = Message(java.ext_fields["b"], body, properties, flag=int(java.ext_fields["h"]))
        queue = MessageQueue(message.topic, broker, int(java.ext_fields["e"]))
        async with (
            open_client(cluster.address) as client,
            client.producer(java.ext_fields["a"], config=config) as producer,
        ):
            await send(producer, java, message, queue, scenario)
            await until(lambda: _sent(cluster))
        (ours,) = _sent(cluster)
    assert ours.ext_fields is not None
    assert (ours.code, ours.flag, ours.body) == (java.code, java.flag, java.body)
    changing = {"g", "i"}  # the time, and properties in the order of a Java hash table
    assert list(ours.ext_fields) == list(java.ext_fields)
    assert {name: each for name, each in ours.ext_fields.items() if name not in changing} == {
        name: each for name, each in java.ext_fields.items() if name not in changing
    }
    assert decode_properties(ours.ext_fields["i"]) == properties


def _sent(cluster: FakeCluster) -> list[RemotingCommand]:
    return [each for code in CODES for each in cluster.broker.asked(code)]
