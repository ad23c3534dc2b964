"""Sends over bytes into a real store: records, responses and refusals.

Batches, the disk (full, or slow to sync) and the equivalence of fast and general path have files of their own.
"""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.sysflag import transaction_type
from tests.broker.message_broker import (
    SMALL_STORE,
    TOPIC,
    MessageBroker,
    open_message_broker,
    send,
)
from tests.broker.send.sending import EXTRA, refused

V1, V2 = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


# ---- what is kept ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("code", [V1, V2])
async def test_a_message_is_kept_as_it_was_sent(
    broker: MessageBroker, code: int, serialize_type: SerializeType
) -> None:
    connection = broker.connect(("10.0.0.9", 4711))
    request = send(
        b"body",
        code=code,
        serialize_type=serialize_type,
        queue_id=2,
        flag=5,
        sys_flag=1,
        reconsume_times=3,
        properties="KEYS\x01k1 k2\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t",
    )
    answer = await broker.ask(request, connection)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert answer.ext_fields == EXTRA | {
        "msgId": "7F00000100002A9F" + "0" * 16,
        "queueId": "2",
        "queueOffset": "0",
    }
    (message,) = await broker.messages(queue_id=2)
    assert (message.topic, message.queue_id, message.queue_offset, message.physical_offset) == (TOPIC, 2, 0, 0)
    assert (message.body, message.flag, message.sys_flag, message.reconsume_times) == (b"body", 5, 1, 3)
    assert (message.born_timestamp, message.born_host) == (1_700_000_000_123, "10.0.0.9:4711")
    assert (message.store_timestamp, message.store_host) == (1_700_000_000_000, "127.0.0.1:10911")
    assert list(message.properties.items()) == [
        ("KEYS", "k1 k2"),
        ("UNIQ_KEY", "0A"),
        ("TAGS", "t"),
        ("CLUSTER", "DefaultCluster"),
    ]
    assert broker.puts[0][4:6] == (tags_code("t"), (b"0A", b"k1", b"k2"))


async def test_offsets_count_per_queue_and_ids_by_physical_offset(broker: MessageBroker) -> None:
    answers = [await broker.ask(send(queue_id=queue_id)) for queue_id in (0, 0, 1, 0)]
    fields = [answer.ext_fields or {} for answer in answers]
    assert [field["queueOffset"] for field in fields] == ["0", "1", "0", "2"]
    places = [int(field["msgId"][16:], 16) for field in fields]
    assert places == [0, 139, 278, 417]


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("body", [None, b""])
async def test_a_message_may_have_no_body(broker: MessageBroker, code: int, body: bytes | None) -> None:
    assert (await broker.ask(send(body, code=code))).code == ResponseCode.SUCCESS
    (message,) = await broker.messages()
    assert message.body == b""
    assert message.body_crc == 0


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("properties", [None, "", "\x02", "\x01\x02", "WAIT\x01true"])
async def test_a_message_without_properties_gets_the_cluster_only(
    broker: MessageBroker, code: int, properties: str | None
) -> None:
    await broker.ask(send(code=code, properties=properties))
    assert (await broker.messages())[0].properties == {"CLUSTER": "DefaultCluster"}
    assert broker.puts[0][3:6] == (b"CLUSTER\x01DefaultCluster", 0, ())


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("wait", ["true", "false", "TRUE", "x"])
async def test_wait_is_obeyed_and_not_kept(broker: MessageBroker, code: int, wait: str) -> None:
    await broker.ask(send(code=code, properties=f"a\x01b\x02WAIT\x01{wait}\x02c\x01d"))
    assert broker.puts[0][3] == b"a\x01b\x02c\x01d\x02CLUSTER\x01DefaultCluster"


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_cluster_that_the_client_names_is_overwritten(broker: MessageBroker, code: int) -> None:
    await broker.ask(send(code=code, properties="CLUSTER\x01other\x02a\x01b"))
    assert (await broker.messages())[0].properties == {"CLUSTER": "DefaultCluster", "a": "b"}


async def test_oneway_is_kept_and_never_answered(broker: MessageBroker) -> None:
    for code in (V1, V2):
        assert await broker.ask_all(send(code=code, oneway=True)) == []
    assert len(await broker.messages()) == 2
    for request in (
        send(oneway=True, topic="a.b"),
        send(oneway=True, queue_id=99),
        send(b"x" * 200_000, oneway=True),
        send(oneway=True, code=V1, topic=""),
    ):
        assert await broker.ask_all(request) == []
    assert len(await broker.messages()) == 2


@pytest.mark.parametrize("code", [V1, V2])
async def test_topics_of_several_tags_are_marked(broker: MessageBroker, code: int) -> None:
    broker.add_topic("Multi", topic_filter_type="MULTI_TAG")
    await broker.ask(send(code=code, topic="Multi", sys_flag=1))
    assert (await broker.messages("Multi"))[0].sys_flag == 3
    assert broker.send_path.taken in ([], [False])


async def test_a_prepared_message_without_a_transaction_is_in_no_queue(broker: MessageBroker) -> None:
    """Compatibility: RocketMQ stores it where no consumer finds it, too."""
    for code in (V1, V2):
        answer = await broker.ask(send(code=code, sys_flag=4))
        assert (answer.code, (answer.ext_fields or {})["queueOffset"]) == (ResponseCode.SUCCESS, "0")
    assert await broker.messages() == []


async def test_a_message_from_ipv6(broker: MessageBroker) -> None:
    for code in (V1, V2):
        await broker.ask(send(code=code), broker.connect(("fd00::1", 9)))
    messages = await broker.messages()
    assert {message.born_host for message in messages} == {"[fd00::1]:9"}
    assert [message.sys_flag for message in messages] == [16, 16]


# ---- which queue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_negative_queue_id_leaves_the_choice_to_the_broker(broker: MessageBroker, code: int) -> None:
    answers = [await broker.ask(send(code=code, queue_id=-1 - n)) for n in range(40)]
    chosen = {(answer.ext_fields or {})["queueId"] for answer in answers}
    assert chosen == {"0", "1", "2", "3"}
    assert sum([len(await broker.messages(queue_id=queue_id)) for queue_id in range(4)]) == 40


async def test_there_may_be_no_queue_to_choose(broker: MessageBroker) -> None:
    broker.add_topic("ReadOnly", write_queue_nums=0)
    answer = await refused(broker, send(topic="ReadOnly", queue_id=-1))
    assert (answer.code, answer.remark) == (1, "topic[ReadOnly] has no write queue to choose from")


# ---- topics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_kernels", [False, True])
async def test_a_topic_that_changes_changes_for_the_next_message(has_kernels: bool) -> None:
    """The fast path caches which topics are plain, and kernels a peer's header: both are invalidated in time."""
    async with open_message_broker(has_kernels=has_kernels) as broker:
        connection = broker.connect()
        assert (await broker.ask(send(queue_id=3), connection)).code == ResponseCode.SUCCESS
        broker.add_topic(TOPIC, queue_nums=2)
        assert (await broker.ask(send(queue_id=3), connection)).code == ResponseCode.SYSTEM_ERROR
        broker.add_topic(TOPIC, queue_nums=4)
        assert (await broker.ask(send(queue_id=3), connection)).code == ResponseCode.SUCCESS
        broker.add_topic(TOPIC, queue_nums=4, topic_filter_type="MULTI_TAG")
        assert (await broker.ask(send(queue_id=1), connection)).code == ResponseCode.SUCCESS
        assert (await broker.messages(queue_id=1))[0].sys_flag == 2
        broker.tables.topics.delete_topic_config(TOPIC)
        answer = await broker.ask(send(default_topic="NoModel"), connection)
        assert (answer.code, answer.remark) == (17, f"topic[TopicTest] not exist, apply first please!{FAQ}")
        assert broker.send_path.taken == [True, False, True, False, False]


async def test_what_is_cached_of_topics_is_bounded(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was dropped from the cache is checked once more, and takes the fast path again."""
    monkeypatch.setattr("rocketpy.broker.send.fast_path.PLAIN_TOPICS_MAX", 2)
    for number in range(5):
        broker.add_topic(f"T{number}")
    checked: list[str] = []
    select_topic_config = broker.tables.topics.select_topic_config

    def noted(topic: str) -> TopicConfig | None:
        checked.append(topic)
        return select_topic_config(topic)

    monkeypatch.setattr(broker.tables.topics, "select_topic_config", noted)
    for topic in ("T0", "T1", "T0", "T2", "T0", "T3", "T4", "T0"):
        assert (await broker.ask(send(topic=topic))).code == ResponseCode.SUCCESS
    assert checked == ["T0", "T1", "T2", "T0", "T3", "T4", "T0"]
    assert broker.send_path.taken == [True] * 8


async def test_a_topic_of_an_illegal_name_in_the_table_takes_nothing(broker: MessageBroker) -> None:
    broker.add_topic("a.b")
    assert "illegal characters" in ((await refused(broker, send(topic="a.b"))).remark or "")


@pytest.mark.parametrize("code", [V1, V2])
async def test_the_checks_come_before_the_message(broker: MessageBroker, code: int) -> None:
    answer = await refused(broker, send(b"x" * 200_000, code=code, topic="SELF_TEST_TOPIC"))
    assert (answer.code, answer.remark) == (16, "Sending message to topic[SELF_TEST_TOPIC] is forbidden.")


# ---- out of bounds --------------------------------------------------------------------------------------------------

ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit 131072B, "
    "msg properties length limit 32KB. Found a body of {}B and properties of {}B"
)


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_body_out_of_bounds(broker: MessageBroker, code: int) -> None:
    limit = SMALL_STORE["max_message_size"]
    assert (await broker.ask(send(b"x" * limit, code=code))).code == ResponseCode.SUCCESS
    answer = await refused(broker, send(b"x" * (limit + 1), code=code))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == ILLEGAL.format(limit + 1, 34)


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("letter", ["x", "ü"])
async def test_properties_out_of_bounds(broker: MessageBroker, code: int, letter: str) -> None:
    """32767 bytes are the most, with the cluster that the broker adds."""
    size = len(letter.encode())
    fits = (32_767 - len("a\x01\x02CLUSTER\x01DefaultCluster")) // size
    assert (await broker.ask(send(code=code, properties="a\x01" + letter * fits))).code == ResponseCode.SUCCESS
    answer = await refused(broker, send(code=code, properties="a\x01" + letter * (fits + 1)))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == ILLEGAL.format(5, 2 + (fits + 1) * size + 23)


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_nul_among_the_properties_is_refused(broker: MessageBroker, code: int) -> None:
    answer = await refused(broker, send(code=code, properties="a\x01b\0"))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == ILLEGAL.format(5, 27) + ", with a NUL among them"


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("text", ["x", "9" * 5000])
async def test_a_delay_that_is_no_number_is_refused(broker: MessageBroker, code: int, text: str) -> None:
    answer = await refused(broker, send(code=code, properties=f"DELAY\x01{text}"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"property DELAY: expected an integer, found {text[:20]!r}"


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_delayed_message_waits_in_the_queue_of_its_level(broker: MessageBroker, code: int) -> None:
    """The answer names the queue that was asked for, and the offset in the one where the message is."""
    answer = await broker.ask(send(b"later", code=code, queue_id=2, properties="DELAY\x013\x02TAGS\x01t"))
    assert (answer.ext_fields or {})["queueId"] == "2"
    (message,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert message.body == b"later"
    assert message.properties == {
        "DELAY": "3", "TAGS": "t", "CLUSTER": "DefaultCluster", "REAL_TOPIC": TOPIC, "REAL_QID": "2"
    }  # fmt: skip
    assert await broker.messages() == []


@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize("text", ["true", "TRUE"])
async def test_a_transactional_message_waits_in_the_half_topic(broker: MessageBroker, code: int, text: str) -> None:
    answer = await broker.ask(send(b"half", code=code, queue_id=2, sys_flag=4, properties=f"TRAN_MSG\x01{text}"))
    assert answer.code == ResponseCode.SUCCESS
    (message,) = await broker.messages("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert (message.body, message.sys_flag) == (b"half", 0)
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == (TOPIC, "2")
    assert await broker.messages() == []


async def test_transactional_messages_can_be_refused() -> None:
    async with open_message_broker(reject_transaction_message=True) as broker:
        answer = await refused(broker, send(properties="TRAN_MSG\x01true"))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_property_that_recovery_trusts_is_not_taken_from_clients(broker: MessageBroker, code: int) -> None:
    """It would put the message into queues of any name, outside of the store's directory too."""
    properties = "INNER_MULTI_DISPATCH\x01../../evil\x02INNER_MULTI_QUEUE_OFFSET\x010"
    answer = await refused(broker, send(code=code, properties=properties))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == "the property INNER_MULTI_QUEUE_OFFSET is the broker's own and may not be sent"


BROKER_ONLY = "TRAN_PREPARED_QUEUE_OFFSET\x010\x02TRANSACTION_CHECK_TIMES\x0114"


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("topic", [TOPIC, "%RETRY%g"])
@pytest.mark.parametrize("first", ["a\x01b", "DELAY\x011", "TRAN_MSG\x01true\x02PGROUP\x01P"])
async def test_what_a_start_trusts_of_transactions_is_not_taken_from_clients(
    broker: MessageBroker, is_fast: bool, topic: str, first: str
) -> None:
    """As the last message of a queue it would end another producer's transaction, or pass as its half message."""
    if not is_fast:
        broker.use_general_path()
    for code in (V1, V2):
        answer = await broker.ask(send(code=code, topic=topic, sys_flag=8 | 1, properties=f"{first}\x02{BROKER_ONLY}"))
        assert answer.code == ResponseCode.SUCCESS
    stored = [message for queue in broker.store.queues() for message in await broker.messages(*queue)]
    assert [transaction_type(message.sys_flag) for message in stored] == [0, 0]
    assert {message.sys_flag & 1 for message in stored} == {1}
    for message in stored:
        assert not {"TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES"} & set(message.properties)


# ---- retry and dead letter topics -----------------------------------------------------------------------------------


async def test_a_dead_letter_waits_as_its_sender_asks(broker: MessageBroker) -> None:
    """Compatibility: as in RocketMQ the delay counts, and the message reaches the dead letter topic later."""
    answer = await broker.ask(send(topic="%RETRY%g", reconsume_times=16, properties="DELAY\x013"))
    assert (answer.ext_fields or {})["queueId"] == "0"
    (message,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == ("%DLQ%g", "0")


@pytest.mark.parametrize(
    ("retries_max", "version", "header_max", "times", "is_dead"),
    [
        (16, 409, None, 15, False),
        (16, 409, None, 16, True),
        (3, 409, None, 3, True),
        (3, 409, 5, 4, False),
        (3, 409, 5, 5, True),
        (3, 121, 5, 4, False),
        (3, 120, 5, 4, True),  # older than V3_4_9: the header's limit does not count
        (0, 409, None, None, True),
        (3, 409, 0, None, True),
    ],
)
async def test_tries_come_to_an_end_in_the_dead_letter_queue(
    broker: MessageBroker, retries_max: int, version: int, header_max: int | None, times: int | None, is_dead: bool
) -> None:
    group = SubscriptionGroupConfig("g", retry_max_times=retries_max)
    broker.tables.groups.update_subscription_group_config(group)
    broker.add_topic("%RETRY%g", queue_nums=3)
    request = send(topic="%RETRY%g", queue_id=2, reconsume_times=times, max_reconsume_times=header_max, version=version)
    answer = await broker.ask(request)
    assert (answer.code, (answer.ext_fields or {})["queueId"]) == (ResponseCode.SUCCESS, "2")  # as it was asked
    assert len(await broker.messages("%RETRY%g", 2)) == (not is_dead)
    assert len(await broker.messages("%DLQ%g", 0)) == is_dead
    dead_letters = broker.tables.topics.select_topic_config("%DLQ%g")
    assert dead_letters == (TopicConfig("%DLQ%g", 1, 1, perm=6) if is_dead else None)


async def test_a_dead_letter_topic_takes_messages_like_any_other(broker: MessageBroker) -> None:
    assert (await broker.ask(send(topic="%DLQ%g", reconsume_times=99))).code == ResponseCode.SUCCESS
    assert len(await broker.messages("%DLQ%g")) == 1
