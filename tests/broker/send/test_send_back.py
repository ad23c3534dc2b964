"""CONSUMER_SEND_MSG_BACK: a retry, a dead letter, or a refusal; the content of the message is unchanged."""

from __future__ import annotations

import pytest
import trio.testing

from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.protocol.message import MessageExt
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, send
from tests.forged_record import body_posing_as_record

RETRY, DLQ, SCHEDULE = "%RETRY%G", "%DLQ%G", "SCHEDULE_TOPIC_XXXX"


def send_back(offset: int = 0, *, oneway: bool = False, version: int = 409, **fields: object) -> RemotingCommand:
    """A send-back of the record at an offset, by group G, that leaves the level to the broker."""
    usual: dict[str, object] = {"offset": offset, "group": "G", "delay_level": 0}
    header = ConsumerSendMsgBackRequestHeader(**(usual | fields))  # type: ignore[arg-type]
    request = make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header, oneway=oneway)
    request.version = version
    return request


async def stored_offset(broker: MessageBroker, **fields: object) -> int:
    """Send a message and return where it is in the log."""
    answer = await broker.ask(send(**fields))  # type: ignore[arg-type]
    assert answer.code == ResponseCode.SUCCESS
    return int((answer.ext_fields or {})["msgId"][16:], 16)


async def only_message(broker: MessageBroker, topic: str, queue_id: int) -> MessageExt:
    (message,) = await broker.messages(topic, queue_id)
    return message


async def accepted(broker: MessageBroker, request: RemotingCommand) -> None:
    answer = await broker.ask(request)
    assert (answer.code, answer.remark, answer.ext_fields) == (ResponseCode.SUCCESS, None, None)


async def test_a_message_waits_for_its_next_try(broker: MessageBroker) -> None:
    physical_offset = await stored_offset(
        broker, body=b"try me", properties="UNIQ_KEY\x010A\x02TAGS\x01t", queue_id=3, flag=7, born_timestamp=12
    )
    await accepted(broker, send_back(physical_offset))
    original, retry = await only_message(broker, TOPIC, 3), await only_message(broker, SCHEDULE, 2)
    assert (retry.body, retry.flag, retry.reconsume_times) == (b"try me", 7, 1)
    assert (retry.born_timestamp, retry.born_host) == (12, original.born_host)
    assert retry.properties == {
        "UNIQ_KEY": "0A",
        "TAGS": "t",
        "CLUSTER": "DefaultCluster",
        "RETRY_TOPIC": TOPIC,
        "WAIT": "false",
        "DELAY": "3",
        "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{physical_offset:016X}",
        "REAL_TOPIC": RETRY,
        "REAL_QID": "0",
    }


async def test_a_retry_has_no_transaction_type_of_the_delivered_message(
    broker: MessageBroker,
) -> None:
    """A start that finds it last in its queue would take it for the end of an open transaction."""
    properties = (
        b"UNIQ_KEY\x010A\x02TRAN_MSG\x01true\x02TRAN_PREPARED_QUEUE_OFFSET\x017\x02TRANSACTION_CHECK_TIMES\x013"
    )
    _, offset, _ = broker.store.put(TOPIC, 0, b"x", properties, 0, (), 0, 8 | 1, 0, b"\x0a\0\0\1\0\0\0\1", 0, 500)
    broker.store.end_burst()
    await accepted(broker, send_back(offset))
    retry = await only_message(broker, SCHEDULE, 2)
    assert (retry.sys_flag, retry.prepared_transaction_offset) == (1, 0)
    assert not {"TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES"} & set(retry.properties)
    assert retry.properties["TRAN_MSG"] == "true"


async def test_a_retry_topic_is_made_for_the_group(broker: MessageBroker) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_queue_nums=3))
    await accepted(broker, send_back(await stored_offset(broker), unit_mode=True))
    config = broker.tables.topics.topic_config_table[RETRY]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag) == (3, 3, 6, 2)


async def test_the_queue_is_one_of_the_groups(broker: MessageBroker) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_queue_nums=4))
    physical_offset = await stored_offset(broker)
    for _ in range(40):
        await accepted(broker, send_back(physical_offset, delay_level=1))
    assert {each.properties["REAL_QID"] for each in await broker.messages(SCHEDULE, 0)} == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("group", "read", "write", "used"), [(4, 1, 1, {"0"}), (4, 2, 3, {"0", "1"}), (4, 8, 3, {"0", "1", "2"})]
)
async def test_the_queue_is_one_that_the_retry_topic_has(
    broker: MessageBroker, group: int, read: int, write: int, used: set[str]
) -> None:
    """The group got more queues later, or an operator gave the topic fewer."""
    physical_offset = await stored_offset(broker)
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_queue_nums=group))
    broker.tables.topics.update_topic_config(TopicConfig(RETRY, read, write))
    for _ in range(40):
        await accepted(broker, send_back(physical_offset, delay_level=1))
    assert {each.properties["REAL_QID"] for each in await broker.messages(SCHEDULE, 0)} == used


@pytest.mark.parametrize(
    ("reconsume_times", "asked_level", "level"),
    [(0, 0, 3), (5, 0, 8), (15, 0, 18), (0, 1, 1), (3, 18, 18), (0, 99, 18)],
)
async def test_the_delay_grows_with_the_tries(
    broker: MessageBroker, reconsume_times: int, asked_level: int, level: int
) -> None:
    physical_offset = await stored_offset(broker, reconsume_times=reconsume_times)
    await accepted(broker, send_back(physical_offset, delay_level=asked_level))
    retry = await only_message(broker, SCHEDULE, level - 1)
    assert (retry.properties["DELAY"], retry.reconsume_times) == (str(level), reconsume_times + 1)


@pytest.mark.parametrize(("reconsume_times", "fields"), [(16, {}), (0, {"delay_level": -1}), (20, {"delay_level": 5})])
async def test_a_message_without_tries_left_is_a_dead_letter(
    broker: MessageBroker, reconsume_times: int, fields: dict[str, object]
) -> None:
    await accepted(broker, send_back(await stored_offset(broker, reconsume_times=reconsume_times), **fields))
    letter = await only_message(broker, DLQ, 0)
    assert (letter.properties["DELAY"], letter.properties["RETRY_TOPIC"]) == ("0", TOPIC)
    assert letter.reconsume_times == reconsume_times + 1
    config = broker.tables.topics.topic_config_table[DLQ]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


@pytest.mark.parametrize(
    ("version", "asked", "is_dead"), [(409, 3, True), (409, 4, False), (120, 3, False), (409, None, False)]
)
async def test_clients_since_349_say_how_many_tries_there_are(
    broker: MessageBroker, version: int, asked: int | None, is_dead: bool
) -> None:
    physical_offset = await stored_offset(broker, reconsume_times=3)
    await accepted(broker, send_back(physical_offset, version=version, max_reconsume_times=asked))
    assert bool(await broker.messages(DLQ)) is is_dead


async def test_the_groups_limit_counts(broker: MessageBroker) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_max_times=0))
    await accepted(broker, send_back(await stored_offset(broker)))
    assert len(await broker.messages(DLQ)) == 1


async def test_where_a_message_came_from_first_stays(broker: MessageBroker) -> None:
    """A second try is of the retry topic; the consumer wants to know the message's own topic and id."""
    properties = "RETRY_TOPIC\x01First\x02ORIGIN_MESSAGE_ID\x01ABC"
    await accepted(broker, send_back(await stored_offset(broker, properties=properties)))
    retry = await only_message(broker, SCHEDULE, 2)
    assert (retry.properties["RETRY_TOPIC"], retry.properties["ORIGIN_MESSAGE_ID"]) == ("First", "ABC")


async def test_a_compressed_body_stays_as_it_is(broker: MessageBroker) -> None:
    await accepted(broker, send_back(await stored_offset(broker, body=b"\x78\x9cnot really", sys_flag=1)))
    retry = await only_message(broker, SCHEDULE, 2)
    assert (retry.body, retry.sys_flag) == (b"\x78\x9cnot really", 1)


async def test_light_queues_get_a_message_once() -> None:
    store = {"enable_multi_dispatch": True, "enable_lmq": True}
    async with open_message_broker(store=store) as broker:
        await accepted(
            broker, send_back(await stored_offset(broker, properties="INNER_MULTI_DISPATCH\x01%LMQ%a"), delay_level=-1)
        )
        assert broker.store.max_offset_in_queue("%LMQ%a", 0) == 1
        letter = await only_message(broker, DLQ, 0)
        assert not [name for name in letter.properties if name.startswith("INNER")]


async def test_a_group_that_wants_no_retries_loses_the_message(broker: MessageBroker) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", retry_queue_nums=0))
    physical_offset = await stored_offset(broker)
    before = broker.stored_bytes
    await accepted(broker, send_back(physical_offset))
    assert broker.stored_bytes == before
    assert RETRY not in broker.tables.topics.topic_config_table


# ---- refusals -------------------------------------------------------------------------------------------------------


async def refused(broker: MessageBroker, request: RemotingCommand) -> tuple[int, str]:
    before = broker.stored_bytes
    answer = await broker.ask(request)
    assert broker.stored_bytes == before
    assert answer.remark is not None
    return answer.code, answer.remark


async def test_an_unknown_group_is_refused() -> None:
    async with open_message_broker(auto_create_subscription_group=False) as broker:
        code, remark = await refused(broker, send_back(await stored_offset(broker)))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert remark.startswith("subscription group not exist, G \nSee http")


async def test_a_broker_that_may_not_be_written_refuses() -> None:
    async with open_message_broker(broker_permission=4) as broker:
        code, remark = await refused(broker, send_back())
    assert (code, remark) == (ResponseCode.NO_PERMISSION, "the broker[127.0.0.1] sending message is forbidden")


async def test_a_retry_topic_that_may_not_be_written_refuses(broker: MessageBroker) -> None:
    broker.add_topic(RETRY, 1, perm=4)
    code, remark = await refused(broker, send_back(await stored_offset(broker)))
    assert (code, remark) == (ResponseCode.NO_PERMISSION, "the topic[%RETRY%G] sending message is forbidden")


@pytest.mark.parametrize("offset", [1, 77_777_777, -1, 2**63 - 1])
async def test_an_offset_without_a_message_is_refused(broker: MessageBroker, offset: int) -> None:
    await stored_offset(broker)
    assert await refused(broker, send_back(offset)) == (
        ResponseCode.SYSTEM_ERROR,
        f"look message by offset failed, {offset}",
    )


@pytest.mark.parametrize("group", ["", "g/h", "x" * 121, "ü"])
async def test_a_group_without_possible_retry_topic_is_refused(broker: MessageBroker, group: str) -> None:
    physical_offset = await stored_offset(broker)
    code, _ = await refused(broker, send_back(physical_offset, group=group))
    assert code == ResponseCode.SYSTEM_ERROR
    assert not [topic for topic in broker.tables.topics.topic_config_table if topic.startswith("%")]
    assert group not in broker.tables.groups.subscription_group_table


async def test_a_message_that_the_store_refuses_is_not_taken_back(broker: MessageBroker) -> None:
    """The new properties do not fit any more: the consumer keeps the message and tries again."""
    physical_offset = await stored_offset(broker, properties="a\x01" + "b" * 32_700)
    code, remark = await refused(broker, send_back(physical_offset))
    assert code == ResponseCode.SYSTEM_ERROR
    assert remark == "MESSAGE_ILLEGAL"


async def test_a_damaged_message_is_not_put_again() -> None:
    """With a new checksum the damaged body would look valid."""
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        physical_offset = await stored_offset(broker, body=b"whole")
        log = disk.open(disk_path(disk))
        record = log.read(0, 200)
        log.write(record.index(b"whole"), b"whole"[::-1])
        code, remark = await refused(broker, send_back(physical_offset))
        assert code == ResponseCode.SYSTEM_ERROR
        assert remark.startswith(f"look message by offset failed, {physical_offset}: ")


def disk_path(disk: SimDisk) -> str:
    (name,) = disk.list_directory("/store/commitlog")
    return f"/store/commitlog/{name}"


# ---- how it is answered ---------------------------------------------------------------------------------------------


async def test_an_answer_does_not_wait_for_the_disk(autojump_clock: trio.testing.MockClock) -> None:
    """The message has WAIT=false, as in RocketMQ; it is flushed soon all the same."""
    async with open_message_broker(store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}) as broker:
        connection = broker.connect()
        assert await broker.ask_all(send(), connection) == []
        await broker.settle()
        connection.take_outgoing()
        await accepted(broker, send_back(0))
        await broker.settle()
        assert broker.store.durable_offset == broker.store.wrote_offset


async def test_a_oneway_send_back_is_not_answered(broker: MessageBroker) -> None:
    physical_offset = await stored_offset(broker)
    assert await broker.ask_all(send_back(physical_offset, oneway=True)) == []
    assert await broker.ask_all(send_back(99_999, oneway=True)) == []
    assert len(await broker.messages(SCHEDULE, 2)) == 1


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_record_in_a_body_is_no_message(broker: MessageBroker, is_cold: bool) -> None:
    """Otherwise a producer could forge a message of any topic, with any properties, retries and host."""
    body, physical_offset = body_posing_as_record(broker.store.wrote_offset, topic=TOPIC, queue_id=0, queue_offset=0)
    await broker.ask(send(body))
    if is_cold:
        broker.store.look_message_by_offset_nowait = lambda _: None  # type: ignore[method-assign]
    assert await refused(broker, send_back(physical_offset)) == (
        ResponseCode.SYSTEM_ERROR,
        f"look message by offset failed, {physical_offset}",
    )


@pytest.mark.parametrize("serialize_type", list(SerializeType))
async def test_a_cold_record_is_read_by_a_task(broker: MessageBroker, serialize_type: SerializeType) -> None:
    physical_offset = await stored_offset(broker)
    broker.store.look_message_by_offset_nowait = lambda _: None  # type: ignore[method-assign]
    request = send_back(physical_offset)
    request.serialize_type = serialize_type
    connection = broker.connect()
    answer = await broker.ask(request, connection)
    assert answer.code == ResponseCode.SUCCESS
    assert connection.deferred_count == 0
    assert await broker.ask_all(send_back(physical_offset, oneway=True), connection) == []
    assert connection.deferred_count == 0
    assert len(await broker.messages(SCHEDULE, 2)) == 2


async def test_too_many_reads_are_refused(broker: MessageBroker) -> None:
    physical_offset = await stored_offset(broker)
    broker.store.look_message_by_offset_nowait = lambda _: None  # type: ignore[method-assign]
    broker.transport.start_task = lambda *_: False  # type: ignore[method-assign]
    code, remark = await refused(broker, send_back(physical_offset))
    assert code == ResponseCode.SYSTEM_BUSY
    assert remark.startswith("[OVERLOAD]system busy, start flow control for a while: too many reads")


async def test_send_backs_are_counted(broker: MessageBroker) -> None:
    await accepted(broker, send_back(await stored_offset(broker)))
    item = broker.tables.stats.get_stats_item("SNDBCK_PUT_NUMS", f"{TOPIC}@G")
    assert item is not None
    assert item.value == 1
