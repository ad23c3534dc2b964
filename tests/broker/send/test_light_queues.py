"""Light queues (``%LMQ%``): a message is in all that it names; each is a topic of one queue, created on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio.testing

from rocketpy.broker.admin.topics import AdminTopicProcessor
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.topic import DeleteTopicRequestHeader
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.send.test_batch import item, send_batch

LMQ = {"enable_lmq": True, "enable_multi_dispatch": True}
TO_BOTH = "INNER_MULTI_DISPATCH\x01%LMQ%alice,%LMQ%bob\x02UNIQ_KEY\x010A"


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    async with open_message_broker(store=LMQ, auto_create_subscription_group=False) as broker:
        yield broker


async def test_a_message_is_pulled_from_every_light_queue(broker: MessageBroker) -> None:
    assert (await broker.ask(send(b"to both", queue_id=3, properties=TO_BOTH))).code == ResponseCode.SUCCESS
    for topic in ("%LMQ%alice", "%LMQ%bob"):
        answer = await broker.ask(pull(topic=topic, consumer_group="%LMQ%readers"))
        assert answer.code == ResponseCode.SUCCESS
        (message,) = decode_messages(answer.body or b"")
        assert (message.body, message.topic, message.queue_id) == (b"to both", TOPIC, 3)
        assert message.properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
    assert not [name for name in broker.tables.topics.topic_config_table if name.startswith("%LMQ%")]


async def test_a_held_pull_wakes_when_its_light_queue_gets_something(
    broker: MessageBroker, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    await nursery.start(broker.hold.run)
    alice, carol = broker.connect(), broker.connect()
    for connection, topic in ((alice, "%LMQ%alice"), (carol, "%LMQ%carol")):
        request = pull(topic=topic, consumer_group="%LMQ%readers", sys_flag=6)
        assert await broker.ask_frames(encode_frame(request), connection) == []
    await broker.ask(send(properties=TO_BOTH))
    (woken,) = received(alice)
    assert woken.code == ResponseCode.SUCCESS
    assert received(carol) == []
    nursery.cancel_scope.cancel()


async def test_a_light_queue_has_queue_0_only(broker: MessageBroker) -> None:
    answer = await broker.ask(pull(topic="%LMQ%alice", consumer_group="%LMQ%readers", queue_id=1))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("queueId[1] is illegal, topic:[%LMQ%alice] topicConfig.readQueueNums:[1]")


async def test_a_light_queue_may_be_sent_to_like_a_topic(broker: MessageBroker) -> None:
    assert (await broker.ask(send(b"direct", topic="%LMQ%alice"))).code == ResponseCode.SUCCESS
    (message,) = await broker.messages("%LMQ%alice")
    assert message.body == b"direct"
    assert (await broker.ask(send(topic="%LMQ%alice", queue_id=1))).code == ResponseCode.SYSTEM_ERROR


async def test_only_so_many_light_queues_are_made() -> None:
    """RocketMQ has no limit on them; each costs directories, a file and memory."""
    async with open_message_broker(store=LMQ | {"max_lmq_consume_queue_num": 2}) as broker:
        for name in ("a", "b"):
            properties = f"INNER_MULTI_DISPATCH\x01%LMQ%{name}"
            assert (await broker.ask(send(properties=properties))).code == ResponseCode.SUCCESS
        stored = broker.stored_bytes
        answer = await broker.ask(send(properties="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%c"))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(
            "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num "
            "exceed maxLmqConsumeQueueNum config num"
        )
        assert broker.stored_bytes == stored
        assert (await broker.ask(send(properties="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"))).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("settings", [{"enable_lmq": True}, LMQ])
async def test_no_send_makes_more_light_queues(settings: dict[str, object]) -> None:
    """By its own topic: a message, a batch, and messages that are to wait. There are as many topics as clients name."""
    async with open_message_broker(store=settings | {"max_lmq_consume_queue_num": 2}) as broker:
        light = [send(topic="%LMQ%a"), send_batch(item(b"b", b""), topic="%LMQ%b")]
        for request in light:
            assert (await broker.ask(request)).code == ResponseCode.SUCCESS
        stored, queue_count = broker.stored_bytes, len(list(broker.store.queues()))
        for request in (
            send(topic="%LMQ%c"),
            send(topic="%LMQ%c", serialize_type=SerializeType.ROCKETMQ),
            send(topic="%LMQ%c", code=RequestCode.SEND_MESSAGE),
            send_batch(item(b"c", b""), topic="%LMQ%c"),
            send(topic="%LMQ%c", properties="DELAY\x013"),
            send(topic="%LMQ%c", properties="TRAN_MSG\x01true\x02PGROUP\x01P"),
        ):
            answer = await broker.ask(request)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")
        assert (broker.stored_bytes, len(list(broker.store.queues()))) == (stored, queue_count)
        for request in (*light, send(), send(topic="%LMQ%a", properties="DELAY\x013")):
            assert (await broker.ask(request)).code == ResponseCode.SUCCESS


async def test_a_light_queue_and_those_that_a_message_names_are_counted_together() -> None:
    async with open_message_broker(store=LMQ | {"max_lmq_consume_queue_num": 2}) as broker:
        answer = await broker.ask(send(topic="%LMQ%a", properties="INNER_MULTI_DISPATCH\x01%LMQ%b,%LMQ%c"))
        assert (answer.remark or "").startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")
        assert broker.stored_bytes == 0
        answer = await broker.ask(send(topic="%LMQ%a", properties="INNER_MULTI_DISPATCH\x01%LMQ%b,%LMQ%a"))
        assert answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("property_", ["TRAN_MSG\x01true", "DELAY\x013"])
async def test_a_message_that_waits_is_in_no_light_queue_yet(broker: MessageBroker, property_: str) -> None:
    """RocketMQ shows a half message to the readers of light queues before it is committed."""
    answer = await broker.ask(send(properties=f"{TO_BOTH}\x02{property_}"))
    assert answer.code == ResponseCode.SUCCESS
    assert broker.store.max_offset_in_queue("%LMQ%alice", 0) == 0


WAITS = ["", "\x02TRAN_MSG\x01true", "\x02DELAY\x013"]
"""An ordinary message, a half message and a delayed message."""


@pytest.mark.parametrize("waits", WAITS)
@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("a/b", "expected the name of a topic, found 'a/b'"),
        ("%LMQ%ok,NoSuchTopic", "expected a topic that exists, found 'NoSuchTopic'"),
        ("SCHEDULE_TOPIC_XXXX", "the topic is the broker's own, found 'SCHEDULE_TOPIC_XXXX'"),
        ("%RETRY%G", "the topic is a group's own, found '%RETRY%G'"),
    ],
)
async def test_names_that_no_message_may_have_are_refused_when_it_is_sent(
    broker: MessageBroker, names: str, why: str, waits: str
) -> None:
    """Which they are is in ``tests/store/queue/test_multi_dispatch.py`` and ``tests/broker/metadata``."""
    broker.add_topic("%RETRY%G")
    stored = broker.stored_bytes
    answer = await broker.ask(send(properties=f"INNER_MULTI_DISPATCH\x01{names}{waits}"))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == f"the message is illegal: property INNER_MULTI_DISPATCH: {why}"
    assert broker.stored_bytes == stored


@pytest.mark.parametrize("waits", WAITS)
async def test_other_limits_are_held_when_a_message_is_sent(waits: str) -> None:
    """Limits: of light queues, and of the properties with the longest possible offsets."""
    async with open_message_broker(store=LMQ | {"max_lmq_consume_queue_num": 2}) as broker:
        stored = broker.stored_bytes
        answer = await broker.ask(send(properties=f"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b,%LMQ%c{waits}"))
        assert (answer.remark or "").startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")
        fills = "x" * (32_767 - 150)
        answer = await broker.ask(send(properties=f"INNER_MULTI_DISPATCH\x01{'%LMQ%a,' * 200}{waits}\x02X\x01{fills}"))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert broker.stored_bytes == stored


async def test_a_message_may_name_a_topic_that_exists(broker: MessageBroker) -> None:
    broker.add_topic("Audit")
    for waits in WAITS:
        answer = await broker.ask(send(properties=f"INNER_MULTI_DISPATCH\x01%LMQ%any + text #,Audit{waits}"))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert broker.store.max_offset_in_queue("Audit", 0) == broker.store.max_offset_in_queue("%LMQ%any + text #", 0) == 1


async def test_without_multi_dispatch_names_mean_nothing() -> None:
    async with open_message_broker() as broker:
        answer = await broker.ask(send(properties="INNER_MULTI_DISPATCH\x01a/b\x02DELAY\x011"))
        assert answer.code == ResponseCode.SUCCESS


async def test_light_queues_are_bounded_without_enable_lmq_too() -> None:
    async with open_message_broker(store={"enable_multi_dispatch": True, "max_lmq_consume_queue_num": 1}) as broker:
        answer = await broker.ask(send(properties="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"))
        assert (answer.remark or "").startswith("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")


async def test_a_stored_reply_names_no_queue_that_it_may_not(broker: MessageBroker) -> None:
    request = send(code=RequestCode.SEND_REPLY_MESSAGE_V2, properties="INNER_MULTI_DISPATCH\x01%DLQ%G")
    answer = await broker.ask(request)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.stored_bytes == 0


async def test_a_retry_that_its_consumer_sends_itself_is_for_its_group_alone(broker: MessageBroker) -> None:
    """Java's client does so when a send-back fails, with all properties of the message."""
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    properties = f"{TO_BOTH}\x02INNER_MULTI_QUEUE_OFFSET\x010,0"
    assert (await broker.ask(send(topic="%RETRY%G", properties=properties))).code == ResponseCode.SUCCESS
    (message,) = await broker.messages("%RETRY%G")
    assert not [name for name in message.properties if name.startswith("INNER")]
    assert broker.store.max_offset_in_queue("%LMQ%alice", 0) == 0


async def test_a_deleted_light_queue_restarts_at_offset_0() -> None:
    """In this life and in the next: its old messages stay in the log, and out of it."""
    disk = SimDisk()
    async with open_message_broker(disk=disk, store=LMQ) as broker:
        administer_topics(broker)
        for body in (b"one", b"two"):
            await broker.ask(send(body, properties=TO_BOTH))
        header = DeleteTopicRequestHeader(topic="%LMQ%alice")
        answer = await broker.ask(make_request(RequestCode.DELETE_TOPIC_IN_BROKER, header))
        assert answer.code == ResponseCode.SUCCESS
        assert broker.store.max_offset_in_queue("%LMQ%alice", 0) == 0
        assert broker.store.max_offset_in_queue("%LMQ%bob", 0) == 2
        await broker.ask(send(b"three", properties=TO_BOTH))
        assert await bodies_of(broker, "%LMQ%alice") == [b"three"]
    async with open_message_broker(disk=disk, store=LMQ) as broker:
        assert await bodies_of(broker, "%LMQ%alice") == [b"three"]
        assert await bodies_of(broker, "%LMQ%bob") == [b"one", b"two", b"three"]


async def bodies_of(broker: MessageBroker, topic: str) -> list[bytes | None]:
    answer = await broker.ask(pull(topic=topic, consumer_group="%LMQ%readers"))
    return [message.body for message in decode_messages(answer.body or b"")]


def administer_topics(broker: MessageBroker) -> None:
    """Let the broker serve what operators ask about topics."""

    async def register_topics() -> None:
        return

    tables = broker.tables
    AdminTopicProcessor(
        config=tables.config,
        topic_config_manager=tables.topics,
        consumer_manager=tables.consumers,
        consumer_offset_manager=tables.offsets,
        deletions=TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=broker.store),
        store=broker.store,
        stats=tables.stats,
        whole_answers=WholeAnswers(),
        register_topics=register_topics,
        is_slave=False,
    ).register(broker.dispatcher)
