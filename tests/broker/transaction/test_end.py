"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE, as frames."""

from __future__ import annotations

import logging

import pytest
import trio.testing

from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.send import ResumeCheckHalfMessageRequestHeader
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.properties import decode_properties, encode_properties
from rocketpy.protocol.sysflag import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    transaction_type,
)
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.ha.log_mark import LogMark
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.transaction.transaction_broker import (
    PRODUCER_HOST,
    QUEUE_ID,
    STORE_HOST,
    TOPIC,
    Half,
    TransactionBroker,
    damage,
    end_request,
    evict_log,
    open_transaction_broker,
)
from tests.forged_record import body_posing_as_record
from tests.store.held_syncs import HeldSyncs

ROLLBACK = TRANSACTION_ROLLBACK_TYPE
UNKNOWN = TRANSACTION_NOT_TYPE


async def refusal(broker: TransactionBroker, half: Half, how: int = TRANSACTION_COMMIT_TYPE, **fields: object) -> str:
    """The remark of an end that is refused with SYSTEM_ERROR and changes nothing."""
    before = broker.store.wrote_offset
    (answer,) = await broker.ask_all(end_request(half, how, **fields))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert broker.store.wrote_offset == before
    assert answer.remark is not None
    return answer.remark


async def test_a_commit_delivers_the_message_as_it_was_sent(broker: TransactionBroker) -> None:
    half = broker.half(b"hello", TAGS="t", KEYS="k")
    answer = await broker.end(half)
    assert (answer.code, answer.remark, answer.ext_fields) == (ResponseCode.SUCCESS, None, None)
    (message,) = await broker.messages(TOPIC, QUEUE_ID)
    assert message.body == b"hello"
    assert (message.flag, message.reconsume_times, message.born_host) == (7, 1, "10.0.0.1:4000")
    assert transaction_type(message.sys_flag) == TRANSACTION_COMMIT_TYPE
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties == {
        "TRAN_MSG": "true",
        "UNIQ_KEY": "Khello",
        "TAGS": "t",
        "KEYS": "k",
        "PGROUP": "P",
        "REAL_TOPIC": TOPIC,
        "REAL_QID": str(QUEUE_ID),
    }
    found = await broker.store.query_message(TOPIC, "Khello", 10, 0, 1 << 62)
    assert found.body  # the delivered message is found by its keys under its own topic
    (op,) = await broker.ops()
    assert (op.body, op.properties) == (b"0", {"TAGS": "d", "WAIT": "true"})


async def test_a_producer_that_ends_at_once_need_not_wait_for_the_transient_pool() -> None:
    """It knows where its half message will be before the pool is committed."""
    async with open_transaction_broker(store={"transient_store_pool_enable": True}) as broker:
        for _ in range(2):
            half = broker.half(b"hello")
            assert broker.store.max_physical_offset <= half.physical_offset, "it waits in the pool"
            answer = await broker.end(half)
            assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert broker.open_count == 0


async def test_a_commit_after_the_topic_was_deleted_rolls_back(broker: TransactionBroker) -> None:
    """The message would come to a queue of a topic that does not exist, and nothing ever removes that."""
    half, renewed = broker.half(b"deleted"), broker.half(b"renewed")
    broker.tables.deleted_topics.add(TOPIC, LogMark(renewed.physical_offset, 1, "00"))
    broker.tables.topics.delete_topic_config(TOPIC)
    for each in (half, renewed):
        answer = await broker.end(each)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"Find prepared transaction message failed: topic[{TOPIC}] was deleted",
        )
    assert broker.open_count == 0
    assert (TOPIC, QUEUE_ID) not in broker.store.queues()
    broker.tables.topics.update_topic_config(TopicConfig(TOPIC))
    for each in (half, renewed):
        assert "it was rolled back" in await refusal(broker, each)
    assert (await broker.end(broker.half(b"made again"))).code == ResponseCode.SUCCESS
    assert await broker.delivered() == [b"made again"]


async def test_a_rollback_delivers_nothing(broker: TransactionBroker) -> None:
    assert (await broker.end(broker.half(), ROLLBACK)).code == ResponseCode.SUCCESS
    assert await broker.delivered() == []
    assert len(await broker.ops()) == 1


async def test_unknown_changes_nothing_and_is_answered(broker: TransactionBroker) -> None:
    half = broker.half()
    before = broker.store.wrote_offset
    assert (await broker.end(half, UNKNOWN)).code == ResponseCode.SUCCESS
    await broker.end_oneway(half, UNKNOWN)
    assert broker.store.wrote_offset == before
    await broker.end(half)
    assert await broker.delivered() == [b"hello"]


async def test_the_delay_of_a_message_begins_with_its_commit(broker: TransactionBroker) -> None:
    half = broker.half(DELAY="3")
    assert (await broker.halves())[0].properties["REAL_TOPIC"] == TOPIC
    await broker.end(half)
    assert await broker.delivered() == []
    (waiting,) = await broker.messages(SCHEDULE_TOPIC, 2)
    assert (waiting.properties["REAL_TOPIC"], waiting.properties["REAL_QID"]) == (TOPIC, str(QUEUE_ID))
    assert waiting.prepared_transaction_offset == half.physical_offset


# ---- a transaction ends once ----------------------------------------------------------------------------------------


async def test_the_same_end_again_is_a_success_and_delivers_nothing_more(broker: TransactionBroker) -> None:
    half = broker.half()
    for _ in range(3):
        assert (await broker.end(half)).code == ResponseCode.SUCCESS
    assert await broker.delivered() == [b"hello"]
    assert len(await broker.ops()) == 1


@pytest.mark.parametrize(("first", "then", "how"), [(8, 12, "committed"), (12, 8, "rolled back")])
async def test_the_other_end_afterwards_is_refused_with_what_has_happened(
    broker: TransactionBroker, first: int, then: int, how: str
) -> None:
    half = broker.half()
    await broker.end(half, first)
    remark = await refusal(broker, half, then)
    assert remark == (
        "Find prepared transaction message failed: the transaction of message Khello is not open, it was " + how
    )


async def test_an_end_that_is_refused_leaves_a_line_also_where_nobody_waits_for_the_answer(
    broker: TransactionBroker, caplog: pytest.LogCaptureFixture
) -> None:
    half = broker.half()
    await broker.end(half, 12)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            await broker.end_oneway(half)
    lines = [each for each in caplog.messages if "is refused" in each]
    assert len(lines) == 3, "once, twice, four times"
    assert "the end 8 of a transaction of P from 127.0.0.1" in lines[0]
    assert "4 so far: " in lines[2]
    assert lines[2].endswith("the transaction of message Khello is not open, it was rolled back")


async def test_a_late_commit_of_the_first_record_and_one_of_its_copy_deliver_once(broker: TransactionBroker) -> None:
    """RocketMQ delivers twice: a check has made a copy, and both the producer and the check listener commit."""
    producer = broker.producer()
    half = broker.half(age_ms=10_000)
    (check,) = await broker.round(producer, after_s=1)
    assert check.half != half
    for each in (half, check.half):
        assert (await broker.end(each)).code == ResponseCode.SUCCESS
    assert await broker.delivered() == [b"hello"]
    assert await broker.round(producer) == []


async def test_a_commit_by_an_old_copy_ends_the_newest(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.half(age_ms=10_000)
    checks = []
    for _ in range(3):
        checks += await broker.round(producer, after_s=60)
    await broker.end(checks[1].half)
    assert await broker.round(producer, after_s=60) == []
    assert [op.body for op in await broker.ops()] == [b"3"]
    assert (await broker.ops())[0].properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"


# ---- refusals -------------------------------------------------------------------------------------------------------


async def test_what_is_wrong_with_a_request_is_said(broker: TransactionBroker) -> None:
    half = broker.half()
    assert await refusal(broker, half, producer_group="Q") == (
        "The producer group wrong: the half message is not of producerGroup Q"
    )
    assert await refusal(broker, half, tran_state_table_offset=5) == (
        "The transaction state table offset wrong: tranStateTableOffset is 5, the half message has 0"
    )
    for offset in (half.physical_offset + 1, 1 << 40, -1, -(1 << 63), (1 << 63) - 1):
        assert await refusal(broker, half, commit_log_offset=offset) == (
            f"Find prepared transaction message failed: no record at commitLogOffset {offset}"
        )
    assert await broker.delivered() == []


async def test_a_record_that_is_no_half_message_cannot_be_ended(broker: TransactionBroker) -> None:
    """RocketMQ delivers whatever record the offset names."""
    half = broker.half()
    await broker.end(half)
    (delivered,) = await broker.messages(TOPIC, QUEUE_ID)
    remark = await refusal(broker, Half(delivered.queue_offset, delivered.physical_offset))
    assert remark.startswith("Find prepared transaction message failed: the record at commitLogOffset")


@pytest.mark.parametrize("queue_offset", [0, 1, 2_000_000, (1 << 63) - 1, -1])
@pytest.mark.parametrize("how", [TRANSACTION_COMMIT_TYPE, ROLLBACK])
@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_record_in_a_body_is_no_half_message(queue_offset: int, how: int, is_cold: bool) -> None:
    """A producer may write any bytes into a message, and knows where they will lie: delivered, they would be in a topic
    that it may not send to; if trusted, they would make the table count up to any number.
    """
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        half = broker.half()
        body, physical_offset = body_posing_as_record(broker.store.wrote_offset, queue_offset=queue_offset)
        broker.store.put(TOPIC, QUEUE_ID, body, b"", 0, (), 0, 0, 0, PRODUCER_HOST, 0)
        broker.store.end_burst()
        if is_cold:
            evict_log(disk)
        remark = await refusal(broker, Half(queue_offset, physical_offset), how)
        assert remark == f"Find prepared transaction message failed: no record at commitLogOffset {physical_offset}"
        assert await broker.messages("Secret") == []
        assert broker.feature.transactions.known_end <= 1
        assert await broker.asked(broker.producer()) == [b"hello"]
        await broker.end(half)
        assert (await broker.delivered())[-1] == b"hello"


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_half_message_whose_lengths_do_not_add_up_is_refused_with_what_is_wrong(is_cold: bool) -> None:
    """The unit names it, and the record was damaged since: at hand or cold, the request is answered."""
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        half = broker.half()
        damage(disk, half.physical_offset, body_size=len(b"hello"))
        if is_cold:
            evict_log(disk)
        remark = await refusal(broker, half)
        assert remark.startswith(
            "Find prepared transaction message failed: the record at commitLogOffset 0 is damaged: record at 0: "
        )
        code, remark_of_resume = await resume(broker, encode_offset_msg_id(STORE_HOST, half.physical_offset))
        assert code == ResponseCode.SYSTEM_ERROR
        assert "The record at offset 0 is damaged: record at 0: " in (remark_of_resume or "")


async def test_a_half_message_that_does_not_say_where_to_is_refused(broker: TransactionBroker) -> None:
    broker.half()
    message = (await broker.halves())[0]
    properties = encode_properties({**message.properties, "REAL_QID": "x"}).encode()
    status, physical_offset, queue_offset = broker.store.put(
        TRANS_HALF_TOPIC, 0, b"", properties, 0, (), 0, 0, 0, PRODUCER_HOST, 0
    )
    assert status is PutMessageStatus.PUT_OK
    broker.store.end_burst()
    remark = await refusal(broker, Half(queue_offset, physical_offset))
    assert remark == (
        f"Find prepared transaction message failed: half message at {physical_offset}: expected REAL_QID from 0 to "
        "2147483647, found 'x'"
    )


async def test_a_slave_ends_no_transactions() -> None:
    async with open_transaction_broker(store={"broker_role": BrokerRole.SLAVE}) as broker:
        assert (await broker.end(Half(0, 0))).code == ResponseCode.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("status", "code", "remark"),
    [
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, 1, "Create mapped file failed."),
        (PutMessageStatus.MESSAGE_ILLEGAL, 13, "The message is illegal, maybe msg body"),
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, 13, "The message is illegal, maybe msg body"),
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, 14, "Service not available now."),
        (PutMessageStatus.OS_PAGECACHE_BUSY, 1, "OS page cache busy, please try another machine"),
        (PutMessageStatus.UNKNOWN_ERROR, 1, "UNKNOWN_ERROR"),
        (PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, 1, "UNKNOWN_ERROR DEFAULT"),
    ],
)
@pytest.mark.parametrize("how", [TRANSACTION_COMMIT_TYPE, ROLLBACK])
async def test_what_the_store_refuses_stays_open(
    broker: TransactionBroker,
    status: PutMessageStatus,
    code: int,
    remark: str,
    how: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = broker.half()
    with monkeypatch.context() as patched:
        patched.setattr(broker.store, "put", lambda *_: (status, -1, -1))
        answer = await broker.end(half, how)
    assert answer.code == code
    assert (answer.remark or "").startswith(remark)
    await broker.end(half)
    assert await broker.delivered() == [b"hello"]


# ---- waiting --------------------------------------------------------------------------------------------------------


async def test_an_end_waits_until_open_transactions_are_known() -> None:
    async with open_transaction_broker(load=False) as broker:
        half = broker.half()
        connection = broker.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.ask_all, end_request(half), connection)
            await trio.testing.wait_all_tasks_blocked()
            assert await broker.delivered() == []
            await broker.service.load({})
        assert await broker.delivered() == [b"hello"]


async def test_a_cold_record_is_read_by_a_task() -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        half = broker.half()
        connection = broker.connect()
        evict_log(disk)
        connection.receive(encode_frame(end_request(half)))
        connection.serve(1)
        assert received(connection) == []
        assert connection.deferred_count == 1
        answers = await broker.ask_all(end_request(broker.half(b"2")), connection)
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 2
        assert connection.deferred_count == 0
        assert sorted(await broker.delivered()) == [b"2", b"hello"]


async def test_too_many_waiting_ends_are_refused(broker: TransactionBroker) -> None:
    connection = broker.connect(ConnectionLimits(deferred_replies_max=0))
    assert (await broker.end(broker.half(), connection=connection)).code == ResponseCode.SYSTEM_BUSY


async def test_the_same_end_again_and_again_is_refused_while_too_many_wait_for_the_disk() -> None:
    """Over all connections: each may have thousands of replies deferred, and there may be thousands of connections."""
    syncs = HeldSyncs()
    settings = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "sync_flush_timeout": 3_600_000}
    async with open_transaction_broker(
        store=settings, run_blocking=syncs.run_blocking, sends_waiting_for_disk_max=9
    ) as broker:
        await trio.testing.wait_all_tasks_blocked()
        half = broker.half()
        syncs.hold()
        connections = [broker.connect() for _ in range(20)]
        answered = [answer for each in connections for answer in await broker.ask_all(end_request(half), each)]
        assert [answer.code for answer in answered] == [ResponseCode.SYSTEM_BUSY] * 10
        await broker.end_oneway(half)  # that waits for nothing
        syncs.release()
        await trio.testing.wait_all_tasks_blocked()
        answered = [answer for each in connections for answer in received(each)]
        assert [answer.code for answer in answered] == [ResponseCode.SUCCESS] * 10


@pytest.mark.parametrize("is_cold", [False, True])
async def test_an_end_that_comes_during_a_sync_is_not_answered_by_that_sync(is_cold: bool) -> None:
    """The sync began when the half message was written and the commit was not: the disk has nothing of the commit."""
    disk, syncs = SimDisk(), HeldSyncs()
    settings = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "sync_flush_timeout": 3_600_000}
    async with open_transaction_broker(disk=disk, store=settings, run_blocking=syncs.run_blocking) as broker:
        await trio.testing.wait_all_tasks_blocked()
        half = broker.half()
        connection = broker.connect()
        if is_cold:
            evict_log(disk)
        syncs.hold()
        broker.store.wait_stored(broker.store.wrote_offset, lambda _: None)  # the half message's producer
        await trio.testing.wait_all_tasks_blocked()
        assert syncs.held_count == 1
        assert await broker.ask_all(end_request(half), connection) == []
        await trio.testing.wait_all_tasks_blocked()
        syncs.release_one()
        await trio.testing.wait_all_tasks_blocked()
        assert broker.store.durable_offset > half.physical_offset, "the first sync is over"
        assert broker.store.durable_offset < broker.store.wrote_offset, "the commit is not durable"
        assert received(connection) == []
        syncs.release_one()
        await trio.testing.wait_all_tasks_blocked()
        (answer,) = received(connection)
        assert answer.code == ResponseCode.SUCCESS
        assert broker.store.durable_offset == broker.store.wrote_offset
        syncs.release()


async def test_under_sync_flush_a_oneway_end_is_flushed_too() -> None:
    async with open_transaction_broker(store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}) as broker:
        await broker.end_oneway(broker.half())
        await trio.testing.wait_all_tasks_blocked()
        assert broker.store.durable_offset == broker.store.wrote_offset


# ---- RESUME_CHECK_HALF_MESSAGE --------------------------------------------------------------------------------------


async def resume(broker: TransactionBroker, msg_id: str | None) -> tuple[int, str | None]:
    request = make_request(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequestHeader(msg_id))
    (answer,) = await broker.ask_all(request)
    return answer.code, answer.remark


async def give_up(broker: TransactionBroker, half_age_ms: int = 10_000) -> Half:
    """A transaction that was asked about once, in vain, and given up."""
    half = broker.half(age_ms=half_age_ms)
    for _ in range(2):
        await broker.round(after_s=60)
    assert len(await broker.given_up()) == 1
    return half


async def test_what_was_given_up_is_checked_again_from_the_beginning() -> None:
    async with open_transaction_broker(transaction_check_max=1) as broker:
        half = await give_up(broker)
        remark = await refusal(broker, half)
        assert remark.endswith("is not open, it was given up")
        (given_up,) = await broker.given_up()
        assert await resume(broker, given_up.offset_msg_id) == (ResponseCode.SUCCESS, None)
        assert (await broker.halves())[-1].properties["TRANSACTION_CHECK_TIMES"] == "0"
        (check,) = await broker.round(broker.producer(), after_s=60)
        await broker.end(check.half)
        assert await broker.delivered() == [b"hello"]
        code, remark_again = await resume(broker, given_up.offset_msg_id)
        assert code == ResponseCode.SYSTEM_ERROR, "it was delivered"
        assert remark_again == (
            "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. The transaction is over or not stored"
        )


async def test_what_is_open_is_resumed_and_what_is_over_is_not(broker: TransactionBroker) -> None:
    half = broker.half()
    msg_id = encode_offset_msg_id(STORE_HOST, half.physical_offset)
    assert (await resume(broker, msg_id))[0] == ResponseCode.SUCCESS
    await broker.end(half)
    assert await broker.delivered() == [b"hello"]
    assert (await resume(broker, msg_id))[0] == ResponseCode.SYSTEM_ERROR


async def test_a_record_that_java_gave_up_becomes_a_transaction_of_its_own() -> None:
    async with open_transaction_broker(transaction_check_max=1) as broker:
        await give_up(broker)
        (given_up,) = await broker.given_up()
        text = "\x02".join(
            f"{name}\x01{value}" for name, value in given_up.properties.items() if name != "TRAN_PREPARED_QUEUE_OFFSET"
        )
        assert "TRAN_PREPARED_QUEUE_OFFSET" not in decode_properties(text)
        _, physical_offset, _ = broker.store.put(
            "TRANS_CHECK_MAX_TIME_TOPIC", 0, b"java", text.encode(), 0, (), 0, 0, 0, PRODUCER_HOST, 0
        )
        assert (await resume(broker, encode_offset_msg_id(STORE_HOST, physical_offset)))[0] == ResponseCode.SUCCESS
        last = (await broker.halves())[-1]
        await broker.end(Half(last.queue_offset, last.physical_offset))
        assert await broker.delivered() == [b"java"]


@pytest.mark.parametrize("msg_id", [None, "", "x", "00", "Z" * 32, "0" * 32 * 1000])
async def test_a_bad_message_id_is_refused(broker: TransactionBroker, msg_id: str | None) -> None:
    code, remark = await resume(broker, msg_id)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "msgId" in (remark or "")
    assert len(remark or "") < 300


async def test_only_half_messages_are_resumed(broker: TransactionBroker) -> None:
    await broker.end(broker.half())
    (delivered,) = await broker.messages(TOPIC, QUEUE_ID)
    code, remark = await resume(broker, delivered.offset_msg_id)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "is no half message, its topic is 'TopicTest'" in (remark or "")
    nowhere = encode_offset_msg_id(STORE_HOST, 1 << 40)
    assert "No record at offset" in ((await resume(broker, nowhere))[1] or "")
