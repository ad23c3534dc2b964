"""Request-reply: a reply reaches exactly the call that waits for it."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import producer_role
from rocketpy.client.replies import reply_to
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.headers.send import ReplyMessageRequestHeader
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.properties import PROPERTIES_TEXT_MAX, encode_properties
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import until, until_blocked

SEND = RequestCode.SEND_MESSAGE_V2
PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT


async def push(cluster: FakeCluster, properties: dict[str, str], body: bytes, sys_flag: int = 0) -> int:
    """Push a reply as a broker does; return the code of the answer."""
    return (await cluster.broker.peers[-1].request(pushed(properties, body, sys_flag), 5.0)).code


def pushed(properties: dict[str, str], body: bytes, sys_flag: int = 0) -> RemotingCommand:
    header = ReplyMessageRequestHeader(
        producer_group="g",
        topic="cluster_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1,
        flag=0,
        properties=encode_properties(properties),
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=2,
    )
    return make_request(PUSH, header, body)


def requested(cluster: FakeCluster) -> dict[str, str]:
    """The properties of the newest request."""
    return cluster.broker.messages(TOPIC)[-1].properties


async def test_a_request_is_what_java_sends_and_gets_its_reply(cluster: FakeCluster) -> None:
    """The properties of the recorded frames of scenario "request-reply"."""
    replies: list[MessageExt] = []
    async with open_client(cluster.address) as client, client.producer("g") as producer:

        async def request() -> None:
            replies.append(await producer.request(Message(TOPIC, b"?", {"KEYS": "rq"}), timeout_s=8))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            await until(lambda: cluster.broker.messages(TOPIC))
            properties = requested(cluster)
            assert properties.keys() == {"KEYS", "WAIT", "UNIQ_KEY", "REPLY_TO_CLIENT", "TTL", "CORRELATION_ID"}
            assert properties["REPLY_TO_CLIENT"] == client.client_id
            assert properties["TTL"] == "8000"
            assert cluster.broker.heartbeats, "the broker knows where to the reply goes"
            sys_flag = compressed_sys_flag(0, CompressionType.ZLIB)
            body = compress(b"answer", CompressionType.ZLIB)
            assert await push(cluster, {"CORRELATION_ID": properties["CORRELATION_ID"]}, body, sys_flag) == 0
    (reply,) = replies
    assert (reply.body, reply.topic, reply.sys_flag, reply.store_host) == (
        b"answer",
        "cluster_REPLY_TOPIC",
        0,
        "127.0.0.1:2",
    )
    assert int(reply.properties["ARRIVE_TIME"]) > 0


async def test_a_reply_that_nothing_waits_for_is_only_logged(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(cluster.address) as client, client.producer("g") as producer, client.producer("h"):
        await producer.send(Message(TOPIC, b"x"))
        for body, sys_flag in ((b"x", 0), (b"garbage", 0x701), (b"x", 0), (b"x", 0), (b"x", 0)):
            assert await push(cluster, {"CORRELATION_ID": "late"}, body, sys_flag) == 0, "it is not even unpacked"
        late = [each for each in caplog.messages if "maybe too late" in each]
        numbers = [f"maybe too late, {count} so far: correlation id late" for count in (1, 2, 4)]
        assert [each.partition("nothing waits for, ")[2] for each in late] == numbers, "a line for each fills the disk"


async def test_properties_of_a_reply_that_no_send_could_have_are_refused(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, client.producer("g") as producer:
        await producer.send(Message(TOPIC, b"x"))
        for size, code in ((PROPERTIES_TEXT_MAX - 4, 0), (PROPERTIES_TEXT_MAX, ResponseCode.SYSTEM_ERROR)):
            assert await push(cluster, {"a": "b" * size}, b"x") == code


async def test_one_reply_counts_and_one_in_an_unknown_compression_is_refused(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(cluster.address) as client, client.producer("g") as producer:

        async def answer() -> None:
            await until(lambda: cluster.broker.messages(TOPIC))
            correlation_id = {"CORRELATION_ID": requested(cluster)["CORRELATION_ID"]}
            assert await push(cluster, correlation_id, b"garbage", 0x701) == ResponseCode.SYSTEM_ERROR
            connection = cluster.broker.peers[0]
            for body in (b"this", b"or this"):  # in one burst: their tasks run in any order
                connection.oneway(pushed(correlation_id, body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            reply = await producer.request(Message(TOPIC, b"?"), timeout_s=8)
    assert reply.body in (b"this", b"or this")
    assert caplog.text.count("maybe too late") == 1


async def test_a_reply_that_is_not_compressed_as_it_says_is_passed_on_as_it_came(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Go's client marks replies as compressed that it sends plain; Java's and its own read them all the same."""
    async with open_client(cluster.address) as client, client.producer("g") as producer:

        async def answer() -> None:
            await until(lambda: cluster.broker.messages(TOPIC))
            correlation_id = {"CORRELATION_ID": requested(cluster)["CORRELATION_ID"]}
            assert await push(cluster, correlation_id, b"plain", compressed_sys_flag(0, CompressionType.ZLIB)) == 0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            reply = await producer.request(Message(TOPIC, b"?"), timeout_s=8)
    assert (reply.body, reply.sys_flag) == (b"plain", 0)
    assert "though it is marked as compressed: compression: expected a whole ZLIB stream" in caplog.text


async def test_after_the_producers_have_gone_replies_are_refused(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client:
        async with client.producer("g") as producer:
            await producer.send(Message(TOPIC, b"x"))
        assert await push(cluster, {"CORRELATION_ID": "late"}, b"x") == ResponseCode.SYSTEM_ERROR


async def test_no_reply_in_time_is_10006_and_leaves_nothing(cluster: FakeCluster, mock_clock: MockClock) -> None:
    failures: list[ClientError] = []
    async with open_client(cluster.address) as client, client.producer("g") as producer:

        async def request() -> None:
            with pytest.raises(ClientError, match="send request message to <TopicTest> OK, but wait reply") as caught:
                await producer.request(Message(TOPIC, b"?"), timeout_s=2)
            failures.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            await until_blocked(lambda: cluster.broker.messages(TOPIC))
            mock_clock.jump(2)
            await until_blocked(lambda: failures)
    assert failures[0].response_code == 10006
    assert "2000 ms." in str(failures[0])


async def test_a_request_that_cannot_be_sent_says_so(cluster: FakeCluster) -> None:
    cluster.broker.refuse(SEND, ResponseCode.SYSTEM_BUSY, "busy")
    async with open_client(cluster.address) as client, client.producer("g") as producer:
        with pytest.raises(ClientError, match="send request message to <TopicTest> fail") as caught:
            await producer.request(Message(TOPIC, b"?"), timeout_s=2)
    assert isinstance(caught.value.__cause__, BrokerError)


async def test_a_request_cancelled_anywhere_leaves_no_waiting_call(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance, producer_role(instance, "g", ProducerConfig()) as producer:

        async def request() -> bytes:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                reply = await producer.request(Message(TOPIC, b"?"), timeout_s=10)
                return reply.body

        async def answer() -> None:
            count = len(cluster.broker.messages(TOPIC))
            await until(lambda: len(cluster.broker.messages(TOPIC)) > count)
            await push(cluster, {"CORRELATION_ID": requested(cluster)["CORRELATION_ID"]}, b"!")

        last = None
        async for attempt in cancelled_everywhere(request):
            assert instance.replies.waiting_count == 0
            last = attempt.result
        assert last == b"!"


def test_a_reply_names_the_request_it_answers() -> None:
    request = MessageExt(
        TOPIC, b"?", {"CLUSTER": "c", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "5", "KEYS": "k"}
    )
    reply = reply_to(request, b"!")
    assert (reply.topic, reply.body, reply.properties) == ("c_REPLY_TOPIC", b"!", {})
    assert reply.reply_properties == {"MSG_TYPE": "reply", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "5"}
    with pytest.raises(ClientError, match=r"create reply message fail, .*property\[CLUSTER\] is null") as caught:
        reply_to(MessageExt(TOPIC, b"?"), b"!")
    assert caught.value.response_code == 10007
