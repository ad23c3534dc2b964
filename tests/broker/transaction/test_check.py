"""Check rounds: who is asked when, what is appended, how far the offsets move, what a new life finds."""

from __future__ import annotations

import math
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.send.put import MessageExtBrokerInner, PutMessageResult
from rocketpy.broker.transaction.check import TransactionCheckStatistics
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.compression import CompressionType, compress
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.sysflag import COMPRESSED_FLAG, TRANSACTION_ROLLBACK_TYPE
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.tables_of_a_broker import Tables
from tests.broker.transaction.transaction_broker import (
    GROUP,
    QUEUE_ID,
    STORE_HOST,
    TOPIC,
    TransactionBroker,
    damage,
    open_transaction_broker,
)

TIMES = "TRANSACTION_CHECK_TIMES"
ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"


def offsets(tables: Tables) -> tuple[int, int]:
    """How far the half and op queues are done with, as consumerOffset.json says."""
    return (
        tables.offsets.query_offset(CHECK_GROUP, TRANS_HALF_TOPIC, 0),
        tables.offsets.query_offset(CHECK_GROUP, TRANS_OP_HALF_TOPIC, 0),
    )


# ---- the question ---------------------------------------------------------------------------------------------------


async def test_a_producer_is_asked_about_a_copy_of_the_half_message(broker: TransactionBroker) -> None:
    producer = broker.producer()
    half = broker.half(b"hello", TAGS="t", age_ms=7_000)
    stored = (await broker.halves())[0]
    (check,) = await broker.round(producer, after_s=1)
    copy = (await broker.halves())[1]
    assert (check.half.queue_offset, check.half.physical_offset) == (1, copy.physical_offset)
    assert check.header.msg_id == check.header.transaction_id == "Khello"
    assert check.header.offset_msg_id == encode_offset_msg_id(STORE_HOST, copy.physical_offset)
    message = check.message
    assert (message.topic, message.queue_id, message.body) == (TOPIC, QUEUE_ID, b"hello")
    assert (message.queue_offset, message.physical_offset) == (1, copy.physical_offset)
    assert (message.store_timestamp, message.store_host) == (stored.store_timestamp, "127.0.0.1:10911")
    assert message.born_host == "10.0.0.1:4000"
    assert message.properties == copy.properties == {**stored.properties, TIMES: "1", ORIGIN: "0"}
    assert (copy.flag, copy.reconsume_times, copy.born_timestamp) == (7, 1, stored.born_timestamp)
    assert half.queue_offset == 0
    assert broker.service.statistics() == TransactionCheckStatistics(1, 1, 0, 0, 1)


async def test_a_compressed_body_is_sent_as_it_is_stored(broker: TransactionBroker) -> None:
    producer = broker.producer()
    body = compress(b"x" * 5000, CompressionType.ZLIB, 5)
    properties = b"PGROUP\x01P\x02REAL_TOPIC\x01TopicTest\x02REAL_QID\x010"
    born_ms = broker.tables.clock.timestamp_ms()
    broker.store.put(TRANS_HALF_TOPIC, 0, body, properties, 0, (), 0, COMPRESSED_FLAG, born_ms, STORE_HOST, 0)
    (check,) = await broker.round(producer, after_s=60)
    assert (check.message.body, check.message.sys_flag) == (body, COMPRESSED_FLAG)


async def test_the_producers_of_a_group_are_asked_in_turn(broker: TransactionBroker) -> None:
    producers = [broker.producer() for _ in range(3)]
    other = broker.producer("Q")
    broker.half_messages(6, age_ms=7_000)
    await broker.round(after_s=1)
    assert [len(received(producer)) for producer in producers] == [2, 2, 2]
    assert received(other) == []


async def test_one_that_does_not_read_is_skipped_and_one_that_is_closed_never_asked(broker: TransactionBroker) -> None:
    slow = broker.producer(limits=ConnectionLimits(outgoing_bytes_pause=-1))
    fast, closed = broker.producer(), broker.producer()
    closed.mark_closed()
    broker.half_messages(3, age_ms=7_000)
    await broker.round(after_s=1)
    assert len(received(fast)) == 3
    fast.mark_closed()
    await broker.round(after_s=60)
    assert len(received(slow)) == 3, "better a slow one than none"


async def test_without_a_producer_the_copy_waits_for_the_next_round(broker: TransactionBroker) -> None:
    broker.half(age_ms=7_000)
    await broker.round(after_s=1)
    assert broker.service.statistics().unasked_count == 1
    assert [half.properties.get(TIMES) for half in await broker.halves()] == [None, "1"]
    producer = broker.producer()
    (check,) = await broker.round(producer, after_s=60)
    assert check.message.properties[TIMES] == "2"


# ---- when it is due -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age_ms", "is_asked"), [(5_999, False), (6_000, True), (0, False), (-1, True)])
async def test_a_message_younger_than_the_timeout_is_not_asked_about(
    broker: TransactionBroker, age_ms: int, is_asked: bool
) -> None:
    """A birth time in the future, from a wrong clock, gives no immunity."""
    producer = broker.producer()
    broker.half(age_ms=age_ms - 1)
    broker.tables.clock.advance_ms(1)
    assert bool(await broker.round(producer)) == is_asked


async def test_the_timeout_is_a_setting_that_counts_at_once() -> None:
    async with open_transaction_broker(transaction_time_out=100) as broker:
        producer = broker.producer()
        broker.half(age_ms=99)
        assert len(await broker.round(producer, after_s=0.001)) == 1
        broker.half(b"2", age_ms=0)
        assert len(await broker.round(producer, after_s=0.099)) == 1, "the old one again, the new one is too young"


async def test_a_young_message_ends_the_round(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.half(b"young")
    broker.half(b"old", age_ms=60_000)
    assert await broker.round(producer, after_s=1) == []
    assert len(await broker.halves()) == 2, "the old one, which comes after the young one, was not checked"
    asked = await broker.round(producer, after_s=6)
    assert [check.message.body for check in asked] == [b"young", b"old"], "for the next round, in order"


async def test_what_is_stored_in_the_moment_of_the_round_is_for_the_next(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.half(age_ms=60_000)
    assert await broker.round(producer) == []
    assert len(await broker.round(producer, after_s=1)) == 1


async def test_records_of_the_future_do_not_stop_the_checks(broker: TransactionBroker) -> None:
    """The clock was set back, or the records are of another master whose clock was ahead."""
    producer = broker.producer()
    broker.half(b"before", age_ms=60_000)
    broker.tables.clock.advance_ms(-3_600_000)
    broker.half(b"after", age_ms=60_000)
    assert await broker.asked(producer, after_s=1) == [b"before", b"after"]


async def test_an_immune_message_is_skipped_and_not_counted() -> None:
    async with open_transaction_broker(transaction_check_max=2) as broker:
        producer = broker.producer()
        broker.half(b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="300")
        broker.half(b"other", age_ms=6_000)
        asked = []
        for _ in range(4):
            asked.append(await broker.asked(producer))
        assert asked == [[b"other"], [b"other"], [], []], "given up after two checks"
        assert [half.body for half in await broker.halves()].count(b"immune") == 1
        assert offsets(broker.tables)[0] == 0, "a start begins at it"
        assert [check.message.properties[TIMES] for check in await broker.round(producer, after_s=60)] == ["1"]


async def test_an_immune_message_is_written_again_once_an_hour() -> None:
    """Not in every round: a megabyte would be written every minute. Not never: a start has to read from it on."""
    async with open_transaction_broker(store={"file_reserved_time": 1000}) as broker:
        broker.half(b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS=str(10 * 3600))
        halves = []
        for _ in range(5 * 60):
            await broker.round(after_s=60)
            halves.append(len(await broker.halves()))
        assert halves[-1] == 6
        assert max(halves.count(each) for each in set(halves)) <= 61
        assert all(TIMES not in half.properties for half in await broker.halves())
        assert [half.properties.get(ORIGIN) for half in await broker.halves()] == [None, "0", "0", "0", "0", "0"]
        assert offsets(broker.tables)[0] == 5


async def test_an_immune_message_is_not_read_in_every_round(
    broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    immune = broker.half(b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="300")
    reads, get = [], broker.store.get_message_nowait

    def noted(topic: str, queue_id: int, queue_offset: int, count: int) -> object:
        if topic == TRANS_HALF_TOPIC:
            reads.append(queue_offset)
        return get(topic, queue_id, queue_offset, count)

    monkeypatch.setattr(broker.store, "get_message_nowait", noted)
    for _ in range(4):
        await broker.round(after_s=60)
    assert reads == [immune.queue_offset]
    await broker.end(immune)
    await broker.round()
    assert offsets(broker.tables) == (1, 1)


async def test_a_message_that_was_born_in_a_far_future_is_not_immune_for_ever() -> None:
    async with open_transaction_broker(transaction_check_max=1) as broker:
        producer = broker.producer()
        immunity = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "9999999999"}
        broker.half(b"in a century", age_ms=-(10**12) * 3, **immunity)
        broker.half(b"in an hour", age_ms=-3_600_000, **immunity)
        assert await broker.asked(producer, after_s=1) == [b"in a century"]
        await broker.round(after_s=60)
        assert [message.body for message in await broker.given_up()] == [b"in a century"]
        await broker.round(after_s=74 * 3600)
        assert broker.open_count == 0, "older than the log is kept"


@pytest.mark.parametrize(("immunity", "is_asked"), [("-1", True), ("x", True), ("0", True), ("7", False), ("-5", True)])
async def test_an_immunity_that_is_no_number_means_the_timeout(
    broker: TransactionBroker, immunity: str, is_asked: bool
) -> None:
    producer = broker.producer()
    broker.half(age_ms=6_500, CHECK_IMMUNITY_TIME_IN_SECONDS=immunity)
    assert bool(await broker.round(producer, after_s=0.001)) == is_asked


async def test_what_has_ended_is_not_asked_about(broker: TransactionBroker) -> None:
    producer = broker.producer()
    halves = broker.half_messages(4, age_ms=60_000)
    await broker.end(halves[0])
    await broker.end(halves[2], TRANSACTION_ROLLBACK_TYPE)
    assert await broker.asked(producer, after_s=1) == [b"1", b"3"]


# ---- giving up ------------------------------------------------------------------------------------------------------


async def test_after_so_many_checks_a_message_is_moved_where_operators_find_it() -> None:
    async with open_transaction_broker(transaction_check_max=3) as broker:
        producer = broker.producer()
        broker.half(TAGS="t", age_ms=60_000)
        asked = 0
        for _ in range(5):
            asked += len(await broker.asked(producer))
        assert asked == 3
        (given_up,) = await broker.given_up()
        assert (given_up.body, given_up.tags, given_up.properties["REAL_TOPIC"]) == (b"hello", "t", TOPIC)
        assert (given_up.properties[TIMES], given_up.properties[ORIGIN]) == ("3", "0")
        config = broker.tables.topics.select_topic_config(TRANS_CHECK_MAX_TIME_TOPIC)
        assert config is not None
        assert (config.write_queue_nums, config.perm) == (1, 6)
        assert broker.service.statistics().given_up_count == 1
        assert await broker.delivered() == []


async def test_what_is_older_than_the_log_is_kept_is_given_up() -> None:
    async with open_transaction_broker(store={"file_reserved_time": 2}) as broker:
        producer = broker.producer()
        broker.half(b"old", age_ms=2 * 3_600_000)
        broker.half(b"new", age_ms=60_000)
        assert await broker.asked(producer, after_s=0.001) == [b"new"]
        assert [message.body for message in await broker.given_up()] == [b"old"]


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_what_the_store_will_never_take_again_keeps_no_other_from_its_turn(
    is_given_up: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a message that is longer than a new maxMessageSize. It stays first, and offsets do not move past it."""
    async with open_transaction_broker(transaction_check_max=1 if is_given_up else 15) as broker:
        producer = broker.producer()
        for body in (b"0", b"too long", b"2", b"long too", b"4"):
            broker.half(body, age_ms=60_000)
        if is_given_up:
            assert len(await broker.asked(producer)) == 5
        put = broker.message_put.put

        def refuses(message: MessageExtBrokerInner) -> PutMessageResult:
            if b"long" in message.body:
                return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL, -1, -1, message.topic, 0)
            return put(message)

        monkeypatch.setattr(broker.message_put, "put", refuses)
        for number in range(1, 3):
            asked = await broker.asked(producer)
            assert asked == ([] if is_given_up else [b"0", b"2", b"4"])
            assert broker.service.statistics().refused_count == 2 * number
            assert offsets(broker.tables)[0] == (6 if is_given_up else 1), "up to the first that is open"
        if is_given_up:
            assert [message.body for message in await broker.given_up()] == [b"0", b"2", b"4"]
        lines = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
        assert lines == ["2 half messages wait for the next round: the store refused their copies"] * 2
        monkeypatch.undo()
        assert len(await broker.asked(producer)) == (0 if is_given_up else 5)
        assert len(await broker.given_up()) == (5 if is_given_up else 0)


async def test_a_store_that_takes_nothing_ends_the_round_at_the_first(
    broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.half_messages(5, age_ms=60_000)
    tries = []
    monkeypatch.setattr(
        broker.store, "put", lambda *put: tries.append(put) or (PutMessageStatus.SERVICE_NOT_AVAILABLE, -1, -1)
    )
    monkeypatch.setattr(broker.store, "writable_or_why", lambda: "the disk is full")
    await broker.round(after_s=60)
    assert len(tries) == 1
    assert broker.service.statistics().refused_count == 0


async def test_a_check_that_fails_unexpectedly_is_given_up_alone(
    broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = broker.producer()
    for body in (b"0", b"bad", b"2"):
        broker.half(body, age_ms=60_000)
    renew = broker.feature.service.renew

    def fails(half: MessageExt, *, check_times: int | None) -> MessageExt | None:
        if half.body == b"bad":
            raise ZeroDivisionError
        return renew(half, check_times=check_times)

    monkeypatch.setattr(broker.feature.service, "renew", fails)
    assert await broker.asked(producer) == [b"0", b"2"]
    assert "the check of the half message at queue offset 1 failed unexpectedly" in caplog.text
    monkeypatch.undo()
    assert await broker.asked(producer) == [b"bad", b"0", b"2"]


async def test_a_message_of_no_group_or_without_a_target_is_given_up_in_the_end() -> None:
    async with open_transaction_broker(transaction_check_max=2) as broker:
        producer = broker.producer()
        broker.half(group=None, age_ms=60_000)
        born_ms = broker.tables.clock.timestamp_ms()
        broker.store.put(TRANS_HALF_TOPIC, 0, b"x", b"PGROUP\x01P", 0, (), 0, 0, born_ms, STORE_HOST, 0)
        for _ in range(4):
            assert await broker.round(producer, after_s=60) == []
        assert len(await broker.given_up()) == 2


# ---- offsets --------------------------------------------------------------------------------------------------------


async def test_offsets_move_up_to_what_is_open(broker: TransactionBroker) -> None:
    halves = broker.half_messages(5)
    for i in (3, 0, 1):
        await broker.end(halves[i])
    await broker.round()
    assert offsets(broker.tables) == (2, 0), "the first op is of half message 3: it is still needed"
    await broker.end(halves[2], TRANSACTION_ROLLBACK_TYPE)
    await broker.end(halves[4])
    await broker.round()
    assert offsets(broker.tables) == (5, 5)
    config = broker.tables.topics.select_topic_config(TRANS_HALF_TOPIC)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
    assert broker.tables.topics.select_topic_config(TRANS_OP_HALF_TOPIC) is None


async def test_many_ops_are_passed_in_one_round(broker: TransactionBroker) -> None:
    for i in range(200):
        await broker.end(broker.half(b"%d" % i))
    await broker.round()
    assert offsets(broker.tables) == (200, 200)


# ---- the next life --------------------------------------------------------------------------------------------------


async def test_a_new_life_knows_what_is_open_whatever_the_offsets_say() -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        tables = broker.tables
        halves = broker.half_messages(6, age_ms=60_000)
        await broker.end(halves[1])
        producer = broker.producer()
        checks = await broker.round(producer, after_s=60)
        assert [check.message.body for check in checks] == [b"0", b"2", b"3", b"4", b"5"]
        await broker.end(halves[2])  # by its first record, when there is a copy
        await broker.end(checks[2].half, TRANSACTION_ROLLBACK_TYPE)
        written = offsets(broker.tables)
    for half_offset, op_offset in (written, (-1, -1), (2, 0)):
        tables.offsets.offset_table.clear()
        if half_offset >= 0:
            tables.offsets.commit_offset("", CHECK_GROUP, TRANS_HALF_TOPIC, 0, half_offset)
            tables.offsets.commit_offset("", CHECK_GROUP, TRANS_OP_HALF_TOPIC, 0, op_offset)
        async with open_transaction_broker(disk=disk, tables=tables) as broker:
            assert broker.open_count == 3
            answer = await broker.end(halves[2])
            assert answer.remark == (
                "Find prepared transaction message failed: the transaction of message K2 is not open, it has ended"
            )
    async with open_transaction_broker(disk=disk, tables=tables) as broker:
        assert await broker.asked(producer) == [b"0", b"4", b"5"]
        assert await broker.delivered() == [b"1", b"2"]


@pytest.mark.parametrize("how", ["commit", "commit by a copy", "delayed", "given up"])
async def test_an_end_whose_op_message_a_crash_has_swallowed_is_found_again(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk()
    delay = {"DELAY": "1"} if how == "delayed" else {}
    async with open_transaction_broker(disk=disk, transaction_check_max=1) as broker:
        tables = broker.tables
        broker.half(b"other", age_ms=60_000)
        half = broker.half(b"hello", age_ms=60_000, **delay)
        checks = []
        if how in ("commit by a copy", "given up"):
            broker.later(60)
            checks = await broker.round(broker.producer())
        broker.put_no_op(monkeypatch)
        with pytest.raises(pytest.fail.Exception):
            if how == "given up":
                await broker.round(after_s=60)
            else:
                await broker.end(checks[1].half if checks else half)
        broker.store.end_burst()
    async with open_transaction_broker(disk=disk, tables=tables) as broker:
        assert broker.open_count == 1
        assert len(await broker.ops()) == 1
    async with open_transaction_broker(disk=disk, tables=tables) as broker:
        assert broker.open_count == 1, "the op message is there now"


@pytest.mark.parametrize("queue_offset", [-7, 1])
async def test_a_record_that_is_gone_ends_its_transaction(queue_offset: int) -> None:
    """No record at the offset, or one of another transaction."""
    async with open_transaction_broker(load=False) as broker:
        producer = broker.producer()
        broker.half(age_ms=60_000)
        broker.half(b"2", age_ms=60_000)
        broker.feature.transactions.load({0: queue_offset, 1: 1}, known_end=2)
        assert await broker.asked(producer, after_s=1) == [b"2"]
        assert broker.open_count == 1


# ---- damage ---------------------------------------------------------------------------------------------------------


async def test_a_damaged_half_message_ends_no_round_and_no_start(caplog: pytest.LogCaptureFixture) -> None:
    """Skipped, counted, one line: the others are checked, now and after a restart."""
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        tables = broker.tables
        halves = broker.half_messages(4, age_ms=60_000)
        for each in (halves[1], halves[3]):
            damage(disk, each.physical_offset, body_size=1)
        producer = broker.producer()
        assert await broker.asked(producer) == [b"0", b"2"]
        assert broker.service.statistics().lost_count == 2
        assert broker.open_count == 2
        assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 2
        assert offsets(broker.tables) == (4, 0)
    tables.offsets.offset_table.clear()
    async with open_transaction_broker(disk=disk, tables=tables) as broker:
        assert broker.open_count == 2
        assert await broker.asked(producer) == [b"0", b"2"]


async def test_a_damaged_op_message_ends_no_round_and_no_start() -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        tables = broker.tables
        for i in range(3):
            await broker.end(broker.half(b"%d" % i, age_ms=60_000))
        damage(disk, (await broker.ops())[1].physical_offset, body_size=1, topic=TRANS_OP_HALF_TOPIC)
    async with open_transaction_broker(disk=disk, tables=tables) as broker:
        assert broker.open_count == 1, "nothing says any more that the second one has ended"
        producer = broker.producer()
        (check,) = await broker.round(producer, after_s=60)
        assert check.message.body == b"1"
        await broker.end(check.half)
        await broker.round()
        assert offsets(broker.tables) == (4, 4), "past the damaged one"


async def test_a_unit_that_leads_nowhere_does_not_hold_up_the_offsets() -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        for i in range(3):
            await broker.end(broker.half(b"%d" % i))
        file = disk.open(f"/store/consumequeue/{TRANS_OP_HALF_TOPIC}/0/00000000000000000000")
        file.write(20, bytes(8))  # the second unit: the physical offset of another record
        file.close()
        await broker.round()
        assert offsets(broker.tables) == (3, 3)


async def test_a_record_of_another_topic_is_no_half_message() -> None:
    """What a unit of the half queue leads to must be of the half topic, whatever has written that unit."""
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        producer = broker.producer()
        broker.half(b"honest", age_ms=60_000)
        broker.half(b"other", age_ms=60_000)
        properties = b"PGROUP\x01P\x02REAL_TOPIC\x01Secret\x02REAL_QID\x010"
        broker.store.put(TOPIC, QUEUE_ID, b"forged", properties, 0, (), 0, 0, 0, STORE_HOST, 0)
        broker.store.end_burst()
        units = disk.open(f"/store/consumequeue/{TOPIC}/{QUEUE_ID}/00000000000000000000")
        half_units = disk.open(f"/store/consumequeue/{TRANS_HALF_TOPIC}/0/00000000000000000000")
        half_units.write(20, units.read(0, 20))
        units.close()
        half_units.close()
        assert await broker.asked(producer) == [b"honest"]
        assert broker.service.statistics().lost_count == 1


# ---- the service ----------------------------------------------------------------------------------------------------


async def test_rounds_come_after_the_interval_which_may_change_meanwhile(autojump_clock: MockClock) -> None:
    settings = {"load": False, "transaction_check_interval": 30_000}
    async with open_transaction_broker(**settings) as broker, trio.open_nursery() as nursery:  # type: ignore[arg-type]
        await nursery.start(broker.service.run)
        assert broker.tables.topics.select_topic_config(TRANS_HALF_TOPIC) is None
        await trio.sleep(29)
        assert broker.service.statistics().round_count == 0
        await trio.sleep(2)
        assert broker.service.statistics().round_count == 1
        object.__setattr__(broker.tables.config, "transaction_check_interval", 3_000)
        await trio.sleep(10)
        assert broker.service.statistics().round_count == 4
        nursery.cancel_scope.cancel()


async def test_a_round_that_fails_unexpectedly_is_not_the_last(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_transaction_broker(load=False) as broker, trio.open_nursery() as nursery:
        await nursery.start(broker.service.run)
        with monkeypatch.context() as patched:
            patched.setattr(broker.tables.offsets, "commit_offset", lambda *_: 1 // 0)
            await trio.sleep(61)
        assert "a round of transaction checks failed unexpectedly" in caplog.text
        await trio.sleep(60)
        assert broker.service.statistics().round_count == 2
        assert offsets(broker.tables) == (0, 0)
        nursery.cancel_scope.cancel()


async def test_a_long_round_lets_others_run_and_ends_after_a_minute(
    broker: TransactionBroker, mock_clock: MockClock
) -> None:
    broker.half_messages(300, age_ms=60_000)
    broker.later(1)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    class Slow:
        """A producer whose check takes a quarter of a second of the loop."""

        is_closed, wants_reading = False, True

        def oneway(self, _: object) -> None:
            mock_clock.jump(0.25)

    client = ClientChannelInfo(cast(Connection, Slow()), "slow", LanguageCode.JAVA, 400, 0.0)
    broker.tables.producers.register_producer(GROUP, client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await broker.service.check()
        nursery.cancel_scope.cancel()
    assert broker.service.statistics().asked_count == math.ceil(60 / 0.25)
    assert turns >= 200
