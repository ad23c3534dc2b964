"""Golden exchanges of a Java broker: sends, pulls and queries, which ours answers equally in the same state.

The state is arranged for each exchange from Java's answer, so each stands alone. Compared: code, names of the fields,
offsets, messages, and remarks where ours only say more. Left out: SQL selectors, slaves, flow control and the VIP port.
(These brokers had the property filter on.)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
import trio
import trio.testing

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.pull.filters import compile_expression, is_tag_type
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.properties import decode_properties, encode_properties
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.connection import Connection
from rocketpy.store.config import FlushDiskType
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.pull.pulling import SUBSCRIPTION
from tests.broker.test_golden_frames import NULL_POINTER, Exchange, of, recorded_requests

STORED = (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT)
OFFSETS = ("nextBeginOffset", "minOffset", "maxOffset")


def exchanges(*codes: int) -> list[object]:
    """The recorded exchanges of some codes that need nothing which does not exist here."""
    return [each for each in of(*codes) if _is_within_reach(each.values[0])]  # type: ignore[arg-type]


def _is_within_reach(exchange: Exchange) -> bool:
    java, remark = exchange.java, exchange.java.remark or ""
    if exchange.request.code == RequestCode.PULL_MESSAGE:
        is_nonsense = _is_nonsense(exchange.fields)
        is_softened = remark == "OFFSET_OVERFLOW_BADLY" and java.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        return not is_nonsense and not is_softened and java.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    if exchange.request.code in (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID):
        return True
    return java.code not in (2, 11, 12, 14)


def _is_nonsense(fields: Mapping[str, str]) -> bool:
    """Whether a pull brings an expression that is none: Java then serves every message, see the compatibility page."""
    if not int(fields.get("sysFlag", "0")) & SUBSCRIPTION or is_tag_type(fields.get("expressionType")):
        return False
    try:
        compile_expression(fields["expressionType"], fields["subscription"])
    except SelectorError:
        return True
    return False


def topic_of(exchange: Exchange) -> str:
    return exchange.fields.get("topic") or exchange.fields.get("b") or ""


def assert_same_answer(ours: RemotingCommand, exchange: Exchange) -> None:
    java = exchange.java
    assert ours.code == java.code, (ours, java)
    assert set(ours.ext_fields or ()) == set(java.ext_fields or ()), (ours, java)
    remark = java.remark or ""
    if not remark.startswith(NULL_POINTER) and exchange.request.ext_fields:
        for varying in (", TopicConfig ", " consumer:["):
            remark = remark.partition(varying)[0]
        assert (ours.remark or "").startswith(remark)
    assert (ours.body is None) == (java.body is None)


async def received_late(connection: Connection) -> list[RemotingCommand]:
    """Return what comes within a minute, in which idle services cost more than everything else."""
    await trio.sleep(60)
    return received(connection)


# ---- sends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exchange",
    exchanges(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE),
)
async def test_sends(exchange: Exchange, autojump_clock: trio.testing.MockClock) -> None:
    store: dict[str, object] = {"max_message_size": 65_536}
    if exchange.run == "sync-flush":
        store |= {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "sync_flush_timeout": -1000}
    creates_topics = exchange.java.code != ResponseCode.TOPIC_NOT_EXIST
    async with open_message_broker(store=store, auto_create_topic_enable=creates_topics) as broker:
        if exchange.java.code in STORED and topic_of(exchange):
            broker.add_topic(topic_of(exchange), queue_nums=8)
        connection = broker.connect()
        broker.serve(exchange.frame, connection)
        (ours,) = received(connection) or await received_late(connection)
        assert_same_answer(ours, exchange)
        if exchange.java.code in STORED:
            java_fields, fields = exchange.java.ext_fields or {}, ours.ext_fields or {}
            if int(exchange.fields.get("queueId", exchange.fields.get("e", ""))) >= 0:
                assert fields["queueId"] == java_fields["queueId"]
            assert fields["msgId"].count(",") == java_fields["msgId"].count(",")
            assert [fields[name] for name in ("MSG_REGION", "TRACE_ON")] == ["DefaultRegion", "true"]


# ---- messages that are sent back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", exchanges(RequestCode.CONSUMER_SEND_MSG_BACK))
async def test_send_backs(exchange: Exchange) -> None:
    """If Java found a record, the query is repeated for a physical offset at which ours has one."""
    creates_groups = exchange.java.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    async with open_message_broker(auto_create_subscription_group=creates_groups) as broker:
        await broker.ask(send(b"again"))
        request = exchange.request
        if exchange.java.code == ResponseCode.SUCCESS:
            request.ext_fields = (request.ext_fields or {}) | {"offset": "0"}
        assert_same_answer(await broker.ask(request), exchange)


@pytest.mark.parametrize("exchange", exchanges(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2))
async def test_replies(exchange: Exchange, autojump_clock: trio.testing.MockClock) -> None:
    fields = exchange.fields
    client_id = decode_properties(fields.get("properties") or fields.get("i", "")).get("REPLY_TO_CLIENT")
    java_push = pushes().get((exchange.run, fields.get("bornTimestamp") or fields.get("g", "")))
    async with open_message_broker() as broker:
        broker.add_topic(topic_of(exchange), queue_nums=1)
        requester, replier = broker.connect(), broker.connect()
        if java_push is not None:
            assert client_id is not None
            info = ClientChannelInfo(requester, client_id, LanguageCode.JAVA, 409, 0.0)
            broker.tables.producers.register_producer("P", info)
        async with trio.open_nursery() as nursery:
            broker.serve(exchange.frame, replier)
            nursery.start_soon(broker.run_tasks)
            await trio.testing.wait_all_tasks_blocked()
            for push in received(requester):
                assert java_push is not None
                assert_same_push(push, java_push)
                broker.serve(encode_frame(make_response(push)), requester)
        (ours,) = received(replier)
        assert_same_answer(ours, exchange)
        for name in ("queueId", "MSG_REGION", "TRACE_ON"):
            assert (ours.ext_fields or {})[name] == (exchange.java.ext_fields or {})[name]
        assert (java_push is None) == (exchange.java.code != ResponseCode.SUCCESS)


def assert_same_push(ours: RemotingCommand, java: RemotingCommand) -> None:
    """All but times and addresses; properties as values, Java's are in the order of a hash map."""
    assert (ours.code, ours.body) == (java.code, java.body)
    ours_fields, java_fields = dict(ours.ext_fields or {}), dict(java.ext_fields or {})
    assert ours_fields.keys() == java_fields.keys()
    our_properties, java_properties = (
        decode_properties(fields.pop("properties")) for fields in (ours_fields, java_fields)
    )
    assert our_properties.keys() == java_properties.keys()
    assert our_properties | {"PUSH_REPLY_TIME": ""} == java_properties | {"PUSH_REPLY_TIME": ""}
    for name in ("storeTimestamp", "bornHost", "storeHost"):
        assert ours_fields.pop(name)
        java_fields.pop(name)
    assert ours_fields == java_fields


@cache
def pushes() -> dict[tuple[str, str], RemotingCommand]:
    """What Java pushed to requesters, by run and born time."""
    requests = recorded_requests(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    return {(run, (push.ext_fields or {})["bornTimestamp"]): push for run, push in requests}


# ---- pulls ----------------------------------------------------------------------------------------------------------

SELECTORS = {"GoldSqlGroup": "a BETWEEN 2 AND 3 AND TAGS = 'TagA'", "GoldVersionGroup": "a > 0"}
"""What the groups of the recording subscribed to."""


def needs_selector(exchange: Exchange) -> bool:
    """Whether the group of a pull selects by SQL92."""
    is_sql = exchange.fields.get("expressionType") == "SQL92" or "by SQL92" in (exchange.java.remark or "")
    return is_sql or exchange.java.code == ResponseCode.FILTER_DATA_NOT_EXIST


async def arrange_pull(broker: MessageBroker, exchange: Exchange) -> None:
    """Create the topic, the group and the queue that Java's answer implies."""
    java, remark, fields = exchange.java, exchange.java.remark or "", exchange.fields
    group, topic = fields.get("consumerGroup", ""), fields.get("topic", "")
    if java.code != ResponseCode.TOPIC_NOT_EXIST and topic:
        broker.add_topic(topic, queue_nums=2 if "queueId[99]" in remark else 8)
        if "pulling message is forbidden" in remark:
            broker.add_topic(topic, perm=2)
    if java.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
        config = SubscriptionGroupConfig(group, consume_enable="subscription group no permission" not in remark)
        broker.tables.groups.update_subscription_group_config(config)
    if java.code != ResponseCode.SUBSCRIPTION_NOT_EXIST and topic:
        channel = ClientChannelInfo(broker.connect(), "c1", LanguageCode.JAVA, 407, 0.0)
        expression = "nothing" if remark == "NO_MATCHED_MESSAGE" else "*"
        version = int(fields.get("subVersion", "0")) - (java.code == ResponseCode.SUBSCRIPTION_NOT_LATEST)
        subscription = SubscriptionData(topic, expression, version)
        if needs_selector(exchange):
            expression = (
                "a BETWEEN" if java.code == ResponseCode.FILTER_DATA_NOT_EXIST else SELECTORS.get(group, "a > 3")
            )
            subscription = SubscriptionData(topic, expression, version, expression_type="SQL92")
        data = ConsumerData(group, subscription_data_set=[subscription])
        broker.tables.consumers.register_consumer(channel, data)
    await arrange_queue(broker, exchange)


async def arrange_queue(broker: MessageBroker, exchange: Exchange) -> None:
    """Fill the queue so that what Java found is where it found it; the rest has a tag without subscribers."""
    found = {message.queue_offset: message for message in decode_messages(exchange.java.body or b"")}
    count = int((exchange.java.ext_fields or {}).get("maxOffset", "0"))
    frames = []
    for queue_offset in range(count):
        message = found.get(queue_offset)
        text = encode_properties(message.properties) if message else "TAGS\x01nobody wants this"
        body = message.body if message else b""
        request = send(
            body,
            topic=exchange.fields["topic"],
            queue_id=int(exchange.fields["queueId"]),
            properties=without_delays(text),
            sys_flag=0,
        )
        frames.append(encode_frame(request))
    await broker.ask_frames(b"".join(frames))


def without_delays(text: str) -> str:
    names = ("DELAY", "TRAN_MSG", "WAIT")
    return encode_properties({name: value for name, value in decode_properties(text).items() if name not in names})


@pytest.mark.parametrize("exchange", exchanges(RequestCode.PULL_MESSAGE))
async def test_pulls(exchange: Exchange, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    java_fields = exchange.java.ext_fields or {}
    with_groups = exchange.java.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    store = {"mapped_file_size_commit_log": 4 << 20}
    settings = {
        "auto_create_subscription_group": with_groups,
        "enable_property_filter": "does not support" not in (exchange.java.remark or ""),
    }
    async with open_message_broker(store=store, **settings) as broker:
        await arrange_pull(broker, exchange)
        nursery.start_soon(broker.hold.run)
        connection = broker.connect()
        broker.serve(exchange.frame, connection)
        await broker.run_tasks()
        (ours,) = received(connection) or await received_late(connection)
        assert_same_answer(ours, exchange)
        if java_fields.get("minOffset") == "0":
            for name in OFFSETS:
                assert (ours.ext_fields or {})[name] == java_fields[name], (name, ours.ext_fields, java_fields)
        our_bodies = [message.body for message in decode_messages(ours.body or b"")]
        assert our_bodies == [message.body for message in decode_messages(exchange.java.body or b"")]
        nursery.cancel_scope.cancel()


# ---- queries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", exchanges(RequestCode.QUERY_MESSAGE))
async def test_queries_by_key(exchange: Exchange) -> None:
    java_messages = decode_messages(exchange.java.body or b"")
    async with open_message_broker() as broker:
        clock = broker.tables.clock
        for message in sorted(java_messages, key=lambda each: each.physical_offset):
            broker.add_topic(message.topic, queue_nums=8)
            clock.advance_ms(message.store_timestamp - clock.timestamp_ms())
            text = without_delays(encode_properties(message.properties))
            request = send(message.body, topic=message.topic, properties=text)
            assert (await broker.ask(request)).code == ResponseCode.SUCCESS
        (ours,) = await broker.ask_frames(exchange.frame)
        assert_same_answer(ours, exchange)
        our_bodies = [message.body for message in decode_messages(ours.body or b"")]
        assert sorted(map(bytes, our_bodies)) == sorted(message.body or b"" for message in java_messages)  # type: ignore[arg-type]


@pytest.mark.parametrize("exchange", exchanges(RequestCode.VIEW_MESSAGE_BY_ID))
async def test_queries_by_physical_offset(broker: MessageBroker, exchange: Exchange) -> None:
    """If Java found a record, the query is repeated for a physical offset at which ours has one."""
    await broker.ask(send(b"there"))
    request = exchange.request
    if exchange.java.code == ResponseCode.SUCCESS:
        request.ext_fields = (request.ext_fields or {}) | {"offset": "0"}
    (ours,) = await broker.ask_frames(encode_frame(request))
    assert_same_answer(ours, exchange)


def test_there_is_something_to_compare() -> None:
    counts = {code: len(exchanges(code)) for code in (10, 11, 12, 33, 36, 310, 320)}
    assert len(exchanges(324, 325)) == 7
    assert len(pushes()) == 3
    assert counts[11] > 100
    assert counts[310] > 90
    assert min(counts.values()) >= 5, counts
