"""Replay of open transactions from the two queues alone, with every gap that a crash can leave."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.broker.transaction.op_message import op_message
from rocketpy.broker.transaction.replay import (
    BATCH_COUNT,
    LeftOpen,
    queue_ends,
    read_open_transactions,
    read_queue,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.transaction.transaction_broker import (
    PRODUCER_HOST,
    QUEUE_ID,
    TOPIC,
    Half,
    TransactionBroker,
    open_transaction_broker,
)
from tests.turns import counted_turns

ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"


def copy_of(broker: TransactionBroker, origin: int, body: bytes = b"hello") -> Half:
    """Append a copy that a check round would have made."""
    return put(broker, TRANS_HALF_TOPIC, body, REAL_TOPIC=TOPIC, REAL_QID=str(QUEUE_ID), **{ORIGIN: str(origin)})


def op(broker: TransactionBroker, half_offset: int, origin: int | None = None) -> None:
    """Append the op message alone."""
    assert broker.message_put.put(op_message(half_offset, origin, timestamp_ms=0, host=PRODUCER_HOST)).is_ok
    broker.store.end_burst()


def put(broker: TransactionBroker, topic: str, body: bytes, *, prepared: int | None = None, **properties: str) -> Half:
    message = MessageExtBrokerInner(
        topic=topic,
        queue_id=QUEUE_ID if topic == TOPIC else 0,
        body=body,
        properties={"UNIQ_KEY": f"K{body.decode()}", **properties},
        sys_flag=0 if prepared is None else TRANSACTION_COMMIT_TYPE,
        born_timestamp=0,
        born_host=PRODUCER_HOST,
    )
    message.prepared_transaction_offset = prepared or 0
    result = broker.message_put.put(message)
    assert result.is_ok
    broker.store.end_burst()
    return Half(result.queue_offset, result.physical_offset)


async def left(broker: TransactionBroker, half_offset: int = 0, op_offset: int = 0) -> LeftOpen:
    return await read_open_transactions(broker.store, half_offset, op_offset, queue_ends(broker.store))


async def test_a_store_without_transactions_has_none(broker: TransactionBroker) -> None:
    assert await left(broker) == LeftOpen({}, 0, ())


async def test_an_op_ends_the_record_that_it_names_and_no_other(broker: TransactionBroker) -> None:
    for body in (b"0", b"1", b"2"):
        broker.half(body)
    op(broker, 1)
    assert await left(broker) == LeftOpen({0: 0, 2: 2}, 3, ())


async def test_the_newest_copy_counts_and_order_is_that_of_the_newest(broker: TransactionBroker) -> None:
    """A check round begins at the first: the one that has waited longest."""
    broker.half(b"0")
    broker.half(b"1")
    copy_of(broker, 0)
    copy_of(broker, 0)
    found = await left(broker)
    assert list(found.newest_by_origin.items()) == [(1, 1), (0, 3)]


async def test_an_op_that_names_an_origin_ends_the_records_up_to_it_and_leaves_later_ones(
    broker: TransactionBroker,
) -> None:
    """RESUME_CHECK_HALF_MESSAGE puts a copy after the op of one that was given up: that copy is open."""
    broker.half(b"0")
    copy_of(broker, 0)
    op(broker, 1, origin=0)
    assert await left(broker) == LeftOpen({}, 2, ())
    copy_of(broker, 0)
    assert await left(broker) == LeftOpen({0: 2}, 3, ())


async def test_an_op_without_an_origin_ends_a_transaction_with_its_later_copies(broker: TransactionBroker) -> None:
    """The producer ended the first record while a round appended a copy of it: there is no further check."""
    broker.half(b"0")
    op(broker, 0)
    copy_of(broker, 0)
    assert await left(broker) == LeftOpen({}, 2, ())


async def test_records_that_are_no_op_messages_end_nothing(broker: TransactionBroker) -> None:
    broker.half(b"0")
    put(broker, "RMQ_SYS_TRANS_OP_HALF_TOPIC", b"0", TAGS="other")
    put(broker, "RMQ_SYS_TRANS_OP_HALF_TOPIC", b"no number", TAGS="d")
    op(broker, 1 << 40)
    assert await left(broker) == LeftOpen({0: 0}, 1, ())


async def test_what_lies_before_the_offsets_is_done_with(broker: TransactionBroker) -> None:
    for body in (b"0", b"1", b"2"):
        broker.half(body)
    op(broker, 0)
    op(broker, 2)
    assert await left(broker, 1, 1) == LeftOpen({1: 1}, 3, ())
    assert await left(broker, 2) == LeftOpen({}, 3, ())
    assert await left(broker, 99, 99) == LeftOpen({}, 3, ())


# ---- an end without its op message ----------------------------------------------------------------------------------


async def test_a_commit_that_lies_before_the_newest_record_is_no_end_of_it(broker: TransactionBroker) -> None:
    """It was resumed afterwards: the copy after the commit is checked."""
    half = broker.half(b"hello")
    put(broker, TOPIC, b"hello", prepared=half.physical_offset)
    copy_of(broker, 0)
    assert await left(broker) == LeftOpen({0: 1}, 2, ())


async def test_an_ordinary_message_that_names_the_same_number_ends_nothing(broker: TransactionBroker) -> None:
    """Only a commit does: a delivered delayed message keeps an offset in the same field."""
    broker.half(b"hello")
    put(broker, TOPIC, b"hello", **{ORIGIN: "0"})
    assert await left(broker) == LeftOpen({0: 0}, 1, ())


async def test_a_retry_with_the_flag_of_a_commit_is_no_end_of_what_lies_first_in_the_log(
    broker: TransactionBroker,
) -> None:
    """Java leaves the flag on what consumers send back, and names offset 0: where a half message may be."""
    half = broker.half(b"hello")
    assert half.physical_offset == 0
    put(broker, TOPIC, b"another", prepared=0)
    assert await left(broker) == LeftOpen({0: 0}, 1, ())
    put(broker, TOPIC, b"hello", prepared=0)
    assert (await left(broker)).unwritten_ends == (0,)


async def test_only_what_was_last_when_the_store_was_opened_is_looked_at(broker: TransactionBroker) -> None:
    """What was put since is not what a crash has left, and the end may lie before it."""
    half = broker.half(b"hello")
    put(broker, TOPIC, b"hello", prepared=half.physical_offset)
    ends = queue_ends(broker.store)
    put(broker, TOPIC, b"later")
    assert (await read_open_transactions(broker.store, 0, 0, ends)).unwritten_ends == (0,)
    assert (await left(broker)).unwritten_ends == ()


async def test_a_record_that_does_not_say_where_it_is_to_go_stays_open(broker: TransactionBroker) -> None:
    put(broker, TRANS_HALF_TOPIC, b"lost")
    assert await left(broker) == LeftOpen({0: 0}, 1, ())


# ---- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, BATCH_COUNT, BATCH_COUNT + 1, 3 * BATCH_COUNT])
async def test_a_queue_is_read_whole_and_in_slices(broker: TransactionBroker, count: int) -> None:
    for number in range(count):
        put(broker, TOPIC, b"%d" % number)
    slices = [decode_messages(records) async for records in read_queue(broker.store, TOPIC, QUEUE_ID, 0)]
    assert [message.body for each in slices for message in each] == [b"%d" % number for number in range(count)]
    assert all(len(each) <= BATCH_COUNT for each in slices)


async def test_what_is_not_in_memory_is_waited_for() -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        for number in range(3):
            put(broker, TOPIC, b"%d" % number)
        for path in disk.state().files:
            disk.evict(path)
        assert broker.store.get_message_nowait(TOPIC, QUEUE_ID, 0, 1) is None
        slices = [decode_messages(records) async for records in read_queue(broker.store, TOPIC, QUEUE_ID, 0)]
        assert [message.body for each in slices for message in each] == [b"0", b"1", b"2"]


async def test_others_have_their_turn_after_each_slice() -> None:
    """A broker may have a hundred thousand open transactions, and has to answer while it reads them."""
    async with open_transaction_broker() as broker, counted_turns() as turns:
        for number in range(4 * BATCH_COUNT):
            put(broker, TOPIC, b"%d" % number)
        seen = [turns.count async for _ in read_queue(broker.store, TOPIC, QUEUE_ID, 0)]
    assert len(seen) == 4
    assert seen[-1] - seen[0] >= 2, "tasks that are ready together run in any order"


async def test_without_descriptors_a_start_waits_with_reading(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk, store={"consume_queue_files_open_max": 8}) as broker:
        broker.half(b"0")
        for number in range(12):
            put(broker, f"Other{number}", b"other")  # so that the file of the half queue is closed
        disk.run_out_of_descriptors(1, 3)
        began = trio.current_time()
        assert await left(broker) == LeftOpen({0: 0}, 1, ())
        assert trio.current_time() > began


async def test_a_commit_to_a_topic_that_was_given_fewer_queues_is_found_where_it_was_put(
    broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = broker.half(b"0")
    broker.tables.topics.update_topic_config(TopicConfig(TOPIC, QUEUE_ID, QUEUE_ID))
    broker.put_no_op(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="no op"):
        await broker.end(half)
    broker.store.end_burst()
    assert broker.store.max_offset_in_queue(TOPIC, QUEUE_ID) == 0
    assert [each.body for each in await broker.messages(queue_id=0)] == [b"0"]
    assert (await left(broker)).unwritten_ends == (0,)
