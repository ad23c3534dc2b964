"""Heartbeats, unregistration, and the configuration check before a consumer starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.broker.clients.heartbeats import GROUPS_CREATED_MAX, GROUPS_OF_CLIENT_MAX
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import UnregisterClientRequestHeader
from rocketpy.protocol.message import MessageQueue
from tests.broker.broker_on_bytes import BrokerOnBytes, received


def heartbeat(
    client_id: str = "c1", consumers: tuple[str, ...] = (), producers: tuple[str, ...] = (), topic: str = "t"
) -> RemotingCommand:
    body = HeartbeatData(
        client_id,
        [ProducerData(group) for group in producers],
        [ConsumerData(group, subscription_data_set=[SubscriptionData(topic)]) for group in consumers],
    )
    return make_request(RequestCode.HEART_BEAT, body=encode_body(body))


def unregister(
    client_id: str = "c1",
    producer: str | None = None,
    consumer: str | None = None,
    *,
    keep_locks: bool | None = None,
) -> RemotingCommand:
    header = UnregisterClientRequestHeader(
        client_id=client_id, producer_group=producer, consumer_group=consumer, keep_locks=keep_locks
    )
    return make_request(RequestCode.UNREGISTER_CLIENT, header)


async def test_a_heartbeat_registers_groups_and_makes_retry_topics(broker: BrokerOnBytes) -> None:
    connection = broker.connect()
    answers = await broker.ask_all(heartbeat(consumers=("g",), producers=("p",)), connection)
    assert [each.code for each in answers if each.is_response] == [ResponseCode.SUCCESS]
    notices = [each for each in answers if not each.is_response]
    assert [(each.code, each.is_oneway, each.ext_fields) for each in notices] == [(40, True, {"consumerGroup": "g"})]
    assert broker.tables.topics.select_topic_config("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1, 6)
    assert "g" in broker.tables.groups.subscription_group_table
    group = broker.tables.consumers.get_consumer_group_info("g")
    assert group is not None
    assert group.client_ids == ["c1"]
    assert broker.tables.producers.groups == ["p"]


@pytest.mark.parametrize("by_group", [False, True])
async def test_notification_can_be_switched_off_for_all_and_for_a_group(
    broker_with: Callable[..., BrokerOnBytes], by_group: bool
) -> None:
    broker = broker_with(notify_consumer_ids_changed_enable=by_group)
    if by_group:
        silent = SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=False)
        broker.tables.groups.update_subscription_group_config(silent)
    answers = await broker.ask_all(heartbeat(consumers=("g",)))
    assert [each.code for each in answers] == [ResponseCode.SUCCESS]


async def test_the_retry_topic_has_the_groups_number_of_queues(broker: BrokerOnBytes) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("g", retry_queue_nums=3))
    await broker.ask_all(heartbeat(consumers=("g",)))
    assert broker.tables.topics.select_topic_config("%RETRY%g") == TopicConfig("%RETRY%g", 3, 3, 6)


async def test_the_retry_topic_of_a_unit_is_marked(broker: BrokerOnBytes) -> None:
    body = HeartbeatData("c1", [], [ConsumerData("g", unit_mode=True)])
    await broker.ask_all(make_request(RequestCode.HEART_BEAT, body=encode_body(body)))
    assert broker.tables.topics.select_topic_config("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1, 6, topic_sys_flag=2)


async def test_an_unknown_group_that_may_not_be_created_gets_no_retry_topic(
    broker_with: Callable[..., BrokerOnBytes],
) -> None:
    broker = broker_with(auto_create_subscription_group=False)
    await broker.ask_all(heartbeat(consumers=("g",)))
    assert broker.tables.topics.select_topic_config("%RETRY%g") is None
    assert broker.tables.consumers.get_consumer_group_info("g") is not None


async def test_retry_topics_of_heartbeats_are_bounded_whatever_their_groups_are_called(
    broker_with: Callable[..., BrokerOnBytes],
) -> None:
    """46 such heartbeats made a table that no registration could carry; every start ended with it."""
    broker = broker_with(auto_create_subscription_group=False, auto_create_topic_max=20)
    groups = [f"CID_RMQ_SYS_{number:0100}" for number in range(50)]
    await broker.ask_all(heartbeat(consumers=tuple(groups)))
    assert not broker.tables.groups.subscription_group_table.keys() & set(groups)
    assert not any(topic.startswith("%RETRY%") for topic in broker.tables.topics.topic_config_table)
    broker = broker_with(auto_create_topic_max=20)
    await broker.ask_all(heartbeat(consumers=tuple(groups)))
    assert len(broker.tables.topics.topic_config_table) == 20
    assert len(list(broker.tables.consumers)) == 50


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (None, "HeartbeatData: expected a body, found none"),
        (b"", "HeartbeatData: expected a body, found none"),
        (b"{", "body: "),
        (b"[]", "body: HeartbeatData: expected an object, found []"),
        (b"{}", "body: HeartbeatData.clientID: expected a value, found nothing"),
        (b'{"clientID":""}', "HeartbeatData.clientID: expected a name, found a blank text"),
        (b'{"clientID":"c","consumerDataSet":{}}', "body: HeartbeatData.consumerDataSet: expected an array, found {}"),
        (b'{"clientID":"c","consumerDataSet":[{}]}', "body: ConsumerData.groupName: expected a value"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":" "}]}', "ConsumerData.groupName: expected a name"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":"a b"}]}', "The specified topic contains illegal"),
        (b'{"clientID":"c","producerDataSet":[{"groupName":""}]}', "ProducerData.groupName: expected a name"),
        (
            b'{"clientID":"c","consumerDataSet":[{"groupName":"' + b"g" * 121 + b'"}]}',
            "The specified topic is longer than topic max length. It has 128 characters, the limit is 127",
        ),
    ],
)
async def test_a_wrong_heartbeat_is_refused_and_changes_nothing(
    broker: BrokerOnBytes, body: bytes | None, remark: str
) -> None:
    answer = await broker.ask(make_request(RequestCode.HEART_BEAT, body=body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(remark)
    assert list(broker.tables.consumers) == []
    assert broker.tables.producers.groups == []
    assert not broker.tables.topics.stored.has_changes


async def test_one_wrong_group_keeps_the_right_ones_out_too(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(heartbeat(consumers=("good", "a b")))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert list(broker.tables.consumers) == []


async def test_leaving_by_request_notifies_the_remaining_members(broker: BrokerOnBytes) -> None:
    first, second = broker.connect(), broker.connect()
    await broker.ask_all(heartbeat("c1", consumers=("g",), producers=("p",)), first)
    await broker.ask_all(heartbeat("c2", consumers=("g",)), second)
    received(first)
    answer = await broker.ask(unregister("c1", "p", "g"), first)
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {})
    assert [each.code for each in received(second)] == [40]
    assert broker.tables.producers.groups == []


async def test_a_member_that_leaves_gives_its_queues_back_and_one_whose_connection_breaks_does_not(
    broker: BrokerOnBytes,
) -> None:
    """That one may still be working; so may one that says so, and one in whose name another peer speaks."""
    queue, locks = MessageQueue("t", "broker-a", 0), broker.tables.locks
    for request, frees in (
        (None, False),
        (unregister("c1", consumer="g", keep_locks=True), False),
        (unregister("c1", producer="g"), False),
        (unregister("c1", consumer="g"), True),
    ):
        connection = broker.connect()
        await broker.ask_all(heartbeat("c1", consumers=("g",)), connection)
        locks.try_lock_batch("g", [queue], "c1")
        await broker.ask(unregister("c1", consumer="g"), broker.connect())
        assert locks.holder("g", queue) == "c1"
        if request is not None:
            await broker.ask(request, connection)
        connection.close()
        assert locks.holder("g", queue) == (None if frees else "c1"), request


@pytest.mark.parametrize(("producer", "consumer"), [(None, None), ("p", None), (None, "g"), ("", "")])
async def test_leaving_what_one_is_not_in_is_fine(
    broker: BrokerOnBytes, producer: str | None, consumer: str | None
) -> None:
    assert (await broker.ask(unregister("c1", producer, consumer))).code == ResponseCode.SUCCESS


async def test_leaving_needs_a_client_id(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(RemotingCommand(RequestCode.UNREGISTER_CLIENT, {"producerGroup": "p"}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "UnregisterClientRequestHeader.clientID: expected text, found nothing"


NO_SQL = "The broker does not support consumer to filter message by SQL92"
OK, REFUSED, NOT_PARSED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    ("filters_properties", "expression_type", "expression", "code", "remark"),
    [
        (False, "TAG", "a || b", OK, None),
        (False, "", "*", OK, None),
        (False, None, "*", OK, None),
        (False, "TAG", "||", OK, None),
        (False, "SQL92", "a > 1", REFUSED, NO_SQL),
        (True, "SQL92", "a > 1", OK, None),
        (True, "SQL92", "a > 'x'", NOT_PARSED, "java.lang.RuntimeException: Value ''x'' cannot be compared."),
        (True, "XPATH", "a", NOT_PARSED, "expected TAG or SQL92, found XPATH"),
        (True, "TAG", "||", OK, None),
    ],
)
async def test_a_consumer_asks_whether_its_selector_is_served(
    broker_with: Callable[..., BrokerOnBytes],
    filters_properties: bool,
    expression_type: str | None,
    expression: str,
    code: int,
    remark: str | None,
) -> None:
    broker = broker_with(enable_property_filter=filters_properties)
    body = CheckClientRequestBody("c1", "g", SubscriptionData("t", expression, expression_type=expression_type))
    answer = await broker.ask(make_request(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body)))
    assert (answer.code, answer.remark) == (code, remark)


async def test_a_question_without_body_is_answered_yes(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.CHECK_CLIENT_CONFIG))
    assert answer.code == ResponseCode.SUCCESS
    answer = await broker.ask(make_request(RequestCode.CHECK_CLIENT_CONFIG, body=b"{}"))
    assert answer.code == ResponseCode.SUCCESS


async def test_a_client_is_in_so_many_groups_and_no_more(broker_with: Callable[..., BrokerOnBytes]) -> None:
    """Counted over all heartbeats of a connection: names are cheap to invent, and every list has them."""
    broker = broker_with(client_body_bytes_max=1 << 20)
    connection = broker.connect()
    most = tuple(f"p{number}" for number in range(GROUPS_OF_CLIENT_MAX))
    assert (await broker.ask(heartbeat(producers=most), connection)).code == ResponseCode.SUCCESS
    assert (await broker.ask(heartbeat(producers=most[:3]), connection)).code == ResponseCode.SUCCESS
    answer = await broker.ask(heartbeat(producers=("one more",)), connection)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR, "HeartbeatData.producerDataSet: expected 0 to 1000, found 1001"
    )  # fmt: skip
    answer = await broker.ask(heartbeat(consumers=tuple(f"g{number}" for number in range(GROUPS_OF_CLIENT_MAX + 1))))
    assert answer.remark == "HeartbeatData.consumerDataSet: expected 0 to 1000, found 1001"
    assert len(broker.tables.producers.groups) == GROUPS_OF_CLIENT_MAX
    assert broker.tables.consumers.get_consumer_group_info("g0") is None


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (heartbeat(client_id="c" * 256, producers=("p",)), "HeartbeatData.clientID"),
        (heartbeat(producers=("p" * 256,)), "ProducerData.groupName"),
    ],
)
async def test_names_have_a_length(broker: BrokerOnBytes, request_: RemotingCommand, field: str) -> None:
    answer = await broker.ask(request_)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"{field}: expected at most 255 characters, found 256"
    assert broker.tables.producers.groups == []


# ---- bounds on the memory of heartbeats -----------------------------------------------------------------------------


def subscribing(client_id: str, *groups: tuple[str, SubscriptionData]) -> RemotingCommand:
    consumers = [ConsumerData(group, subscription_data_set=[subscription]) for group, subscription in groups]
    return make_request(RequestCode.HEART_BEAT, body=encode_body(HeartbeatData(client_id, [], consumers)))


@pytest.mark.parametrize(
    ("subscription", "fault"),
    [
        (SubscriptionData("t" * 128), f"topic of topic {'t' * 127}: expected at most 127, found 128"),
        (SubscriptionData("t", "a" * 32_769), "subString of topic t: expected at most 32768, found 32769"),
        (SubscriptionData("t", tags_set=["a"] * 1001), "tagsSet of topic t: expected at most 1000, found 1001"),
        (SubscriptionData("t", tags_set=["a" * 40_000]), "tagsSet of topic t: expected at most 32768, found 40000"),
        (SubscriptionData("t", code_set=[1] * 1001), "codeSet of topic t: expected at most 1000, found 1001"),
        (
            SubscriptionData("t", expression_type="x" * 128),
            "expressionType of topic t: expected at most 127, found 128",
        ),
    ],
)
async def test_a_subscription_that_is_too_large_is_refused_and_takes_no_other_with_it(
    broker: BrokerOnBytes, subscription: SubscriptionData, fault: str
) -> None:
    beat = subscribing("c1", ("a", SubscriptionData("t")), ("bad", subscription), ("b", SubscriptionData("t")))
    (answer, *_) = [each for each in await broker.ask_all(beat) if each.is_response]
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"group bad is not taken: SubscriptionData.{fault}"
    assert [each.group_name for each in broker.tables.consumers] == ["a", "b"]


async def test_a_heartbeat_that_is_too_long_is_not_decoded(broker_with: Callable[..., BrokerOnBytes]) -> None:
    broker = broker_with(client_body_bytes_max=2000)
    answer = await broker.ask(subscribing("c1", ("g", SubscriptionData("t", "x" * 2000))))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("HeartbeatData: expected at most 2000 bytes, found 2")
    assert len(list(broker.tables.consumers)) == 0


@pytest.mark.parametrize(
    ("settings", "said", "taken"),
    [
        ({"connection_client_bytes_max": 10_000}, "of one connection, see connectionClientBytesMax", 12),
        ({"client_bytes_max": 10_000}, "of all clients, see clientBytesMax", 6),
    ],
)
async def test_the_memory_of_heartbeats_is_bounded_and_released(
    broker_with: Callable[..., BrokerOnBytes], settings: dict[str, int], said: str, taken: int
) -> None:
    """Thousands of groups with long subscriptions, each within its bounds, filled memory all the same."""
    broker = broker_with(**settings)
    connections = [broker.connect() for _ in range(2)]
    for connection in connections:
        groups = [(f"{connection.peer.rpartition(':')[2]}-{number}", SubscriptionData("t")) for number in range(10)]
        answers = await broker.ask_all(subscribing("c", *groups), connection)
        (answer,) = [each for each in answers if each.is_response]
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert said in (answer.remark or "")
        producers = HeartbeatData("c", [ProducerData(f"p{number}") for number in range(20)])
        await broker.ask_all(make_request(RequestCode.HEART_BEAT, body=encode_body(producers)), connection)
        assert len(broker.tables.producers.groups_of(connection)) < 20
    known = [each.group_name for each in broker.tables.consumers]
    assert len(known) == taken
    again = await broker.ask(subscribing("c", (known[0], SubscriptionData("t"))), connections[0])
    assert again.code == ResponseCode.SUCCESS, again.remark  # what is known goes on
    producers = HeartbeatData("c", [ProducerData(next(iter(broker.tables.producers.groups_of(connections[0]))))])
    again = await broker.ask(make_request(RequestCode.HEART_BEAT, body=encode_body(producers)), connections[0])
    assert again.code == ResponseCode.SUCCESS, again.remark
    for connection in connections:
        connection.close()
    assert broker.tables.consumers.kept_bytes == broker.tables.producers.kept_bytes == 0


async def test_one_heartbeat_creates_only_so_many_groups_and_the_next_ones_the_others(broker: BrokerOnBytes) -> None:
    """Each is two log lines and two table entries; a thousand at once block the event loop."""
    connection = broker.connect()
    beat = heartbeat(consumers=tuple(f"g{number}" for number in range(2 * GROUPS_CREATED_MAX + 10)))
    created = []
    for _ in range(4):
        await broker.ask_all(beat, connection)
        created.append(sum(topic.startswith("%RETRY%g") for topic in broker.tables.topics.topic_config_table))
    assert created == [GROUPS_CREATED_MAX, 2 * GROUPS_CREATED_MAX] + [2 * GROUPS_CREATED_MAX + 10] * 2
    assert len(list(broker.tables.consumers)) == 2 * GROUPS_CREATED_MAX + 10
