"""Messages by id and by key, on a real broker and on scripted ones that find the wrong ones or fail."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, BrokersError, ClientError, RemoteProtocolError, RemotingConnectError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.running import CMResult, ConsumeMessageDirectlyResult
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import UNIQUE_KEY_QUERY, QueryMessageRequestHeader, QueryMessageResponseHeader
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.message_id import UniqKeyFactory, encode_offset_msg_id
from rocketpy.protocol.stored_message import decode_messages, encode_message
from rocketpy.remoting.connection import Connection
from tests.client.admin.conftest import RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeBroker, FakeCluster, open_fake_cluster
from tests.client.opened import opened
from tests.patience import PATIENCE_SECONDS

UNIQ_KEY = "UNIQ_KEY"


async def until_indexed(real: RealScene, key: str) -> None:
    """Wait for the index, which is built after the store."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                await real.admin.messages.query(T, key)
            except ClientError:
                await trio.sleep(0.01)
            else:
                return


def scripted_query(broker: FakeBroker, *messages: MessageExt, code: int = ResponseCode.SUCCESS, upto: int = 0) -> None:
    """Let a broker find these messages by any key."""
    header = QueryMessageResponseHeader(index_last_update_timestamp=upto, index_last_update_phyoffset=0)
    body = b"".join(map(encode_message, messages))
    broker.register(
        RequestCode.QUERY_MESSAGE, lambda connection, request: make_response(request, code, header=header, body=body)
    )


def message(body: bytes, *, keys: str = "", unique_key: str = "", topic: str = TOPIC, stored: int = 0) -> MessageExt:
    properties = {name: value for name, value in (("KEYS", keys), (UNIQ_KEY, unique_key)) if value}
    return MessageExt(topic, body, properties, store_timestamp=stored, store_host="127.0.0.1:10911")


async def test_a_message_is_found_by_each_of_its_ids_and_keys(real: RealScene) -> None:
    first, second = await real.send(Message(T, b"1", {"KEYS": "k1 both"}), Message(T, b"2", {"KEYS": "both"}))
    await until_indexed(real, "both")
    messages = real.admin.messages
    assert (await messages.view(first.offset_msg_id)).body == b"1"
    assert (await messages.find(T, first.offset_msg_id)).body == b"1"
    assert (await messages.find(T, second.msg_id)).body == b"2"
    assert (await messages.find_by_unique_key(T, second.msg_id)).offset_msg_id == second.offset_msg_id
    assert [each.body for each in (await messages.query(T, "k1")).messages] == [b"1"]
    both = await messages.query(T, "both")
    assert sorted(each.body for each in both.messages) == [b"1", b"2"]
    assert (both.failures, both.index_last_update_timestamp > 0) == ({}, True)
    assert len((await messages.query(T, "both", max_num=1)).messages) == 1
    unique = await messages.query_unique_key(T, first.msg_id)
    assert [each.body for each in unique.messages] == [b"1"]
    for ask in (messages.query(T, "both", end_timestamp=1), messages.query(T, "none"), messages.find(T, "no id")):
        with pytest.raises(ClientError, match="no message") as caught:
            await ask
        assert caught.value.response_code == ResponseCode.NO_MESSAGE
    with pytest.raises(ClientError, match="CODE: 17"):
        await messages.query("Nowhere", "k1")


async def test_a_listener_is_given_one_message_by_hand(real: RealScene) -> None:
    given: list[bytes] = []

    async def consume(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        given.extend(each.body for each in decode_messages(request.body or b""))
        result = ConsumeMessageDirectlyResult(consume_result=CMResult.CR_LATER, spent_time_mills=3)
        return make_response(request, body=encode_body(result))

    (sent,) = await real.send(Message(T, b"again", {"KEYS": "k"}))
    await until_indexed(real, "k")
    async with real.online("g", handlers={RequestCode.CONSUME_MESSAGE_DIRECTLY: consume}) as client_id:
        for msg_id, topic in ((sent.offset_msg_id, None), (sent.msg_id, T)):
            result = await real.admin.messages.consume_directly("g", client_id, msg_id, topic)
            assert (result.consume_result, result.spent_time_mills) == ("CR_LATER", 3)
        with pytest.raises(BrokerError, match="The Consumer <g> <elsewhere> not online"):
            await real.admin.messages.consume_directly("g", "elsewhere", sent.offset_msg_id)
    assert given == [b"again"] * 2


async def test_only_half_messages_are_checked_again(real: RealScene) -> None:
    (sent,) = await real.send(Message(T, b"whole", {"KEYS": "k"}))
    await until_indexed(real, "k")
    for msg_id, topic in ((sent.offset_msg_id, None), (sent.msg_id, T)):
        with pytest.raises(BrokerError, match="is no half message"):
            await real.admin.messages.resume_check(msg_id, topic)


@pytest.mark.parametrize("msg_id", ["", "xyz", "00" * 15, "7F00000100010000" + "00" * 8, "7F00000100000000" + "00" * 8])
async def test_what_is_no_id_of_a_broker_is_no_message(msg_id: str, admin: AdminClient) -> None:
    """Among them ids whose port no address can have."""
    with pytest.raises(ClientError, match="query message by id finished, but no message") as caught:
        await admin.messages.view(msg_id)
    assert caught.value.response_code == ResponseCode.NO_MESSAGE


async def test_an_address_that_no_broker_has_registered_is_dialled_by_view_only(cluster: FakeCluster) -> None:
    scripted_query(cluster.broker, code=ResponseCode.QUERY_NOT_FOUND)
    nowhere = encode_offset_msg_id(encode_host("127.0.0.1:1"), 0)
    async with open_fake_cluster() as foreign, open_admin_client(cluster.address) as admin:
        record = encode_message(MessageExt(TOPIC, b"foreign", store_host=foreign.broker.address))
        foreign.broker.answer(RequestCode.VIEW_MESSAGE_BY_ID, record)
        elsewhere = encode_offset_msg_id(encode_host(foreign.broker.address), 0)
        with pytest.raises(RemotingConnectError, match=r"127\.0\.0\.1:1"):
            await admin.messages.view(nowhere)
        for msg_id in (nowhere, elsewhere):
            with pytest.raises(ClientError, match="CODE: 208"):
                await admin.messages.find(TOPIC, msg_id)
        assert foreign.broker.requests == []
        assert (await admin.messages.view(elsewhere)).body == b"foreign"


async def test_a_record_that_is_none_is_named(cluster: FakeCluster, admin: AdminClient) -> None:
    code = RequestCode.VIEW_MESSAGE_BY_ID
    cluster.broker.answer(code)
    msg_id = encode_offset_msg_id(encode_host(cluster.broker.address), 0)
    with pytest.raises(RemoteProtocolError, match="expected one record, found 0"):
        await admin.messages.view(msg_id)
    cluster.broker.answer(code, b"garbage")
    with pytest.raises(RemoteProtocolError):
        await admin.messages.view(msg_id)


async def test_messages_whose_keys_only_have_the_same_hash_are_left_out(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    scripted_query(first, message(b"1", keys="x k"), message(b"2", keys="kk"), message(b"3"), upto=5)
    scripted_query(second, message(b"4", keys="k", topic="Another"), message(b"5", keys="k"), upto=9)
    async with open_admin_client(two_brokers.address) as admin:
        found = await admin.messages.query(TOPIC, "k")
    assert sorted(each.body for each in found.messages) == [b"1", b"5"]
    assert found.index_last_update_timestamp == 9


async def test_of_a_message_stored_twice_the_earliest_counts(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    scripted_query(first, message(b"late", unique_key="K", stored=20), message(b"hash", unique_key="L", stored=1))
    scripted_query(second, message(b"later", unique_key="K", stored=30), message(b"early", unique_key="K", stored=10))
    async with open_admin_client(two_brokers.address) as admin:
        assert (await admin.messages.find_by_unique_key(TOPIC, "K")).body == b"early"
    assert first.asked(RequestCode.QUERY_MESSAGE)[0].ext_fields == {
        "topic": TOPIC,
        "key": "K",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": "9223372036854775807",
        UNIQUE_KEY_QUERY: "true",
    }


async def test_a_unique_key_is_looked_for_from_its_time_on_and_then_everywhere(cluster: FakeCluster) -> None:
    asked: list[int] = []

    def query(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        begin = read_header(request, QueryMessageRequestHeader).begin_timestamp
        asked.append(begin)
        header = QueryMessageResponseHeader(index_last_update_timestamp=0, index_last_update_phyoffset=0)
        if begin:
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, header=header)
        body = encode_message(message(b"old", unique_key=unique_key))
        return make_response(request, header=header, body=body)

    cluster.broker.register(RequestCode.QUERY_MESSAGE, query)
    async with opened(cluster.address) as instance:
        admin = AdminClient(instance=instance)
        now_ms = instance.clock.timestamp_ms()
        factory = UniqKeyFactory(address=bytes(4), process_id=1, constant=1)
        unique_key = factory.create(now_ms - 5_000)
        assert (await admin.messages.find(TOPIC, unique_key)).body == b"old"
    assert asked == [now_ms - 5_000 - 1_000, 0]


async def test_a_broker_that_fails_is_beside_the_messages_of_the_others(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    scripted_query(first, message(b"1", keys="k"))
    scripted_query(second)
    second.refuse(RequestCode.QUERY_MESSAGE, ResponseCode.SYSTEM_ERROR, "broken")
    async with open_admin_client(two_brokers.address) as admin:
        found = await admin.messages.query(TOPIC, "k")
        assert [each.body for each in found.messages] == [b"1"]
        assert list(found.failures) == [second.address]
        scripted_query(first, code=ResponseCode.QUERY_NOT_FOUND)
        with pytest.raises(BrokersError, match="broken"):
            await admin.messages.query(TOPIC, "k")


async def test_the_only_broker_that_fails_is_the_failure(cluster: FakeCluster, admin: AdminClient) -> None:
    scripted_query(cluster.broker)
    cluster.broker.refuse(RequestCode.QUERY_MESSAGE, ResponseCode.SYSTEM_ERROR, "broken")
    with pytest.raises(BrokerError, match="broken"):
        await admin.messages.query(TOPIC, "k")
