"""Every change of a transaction is one step: the records it puts and the table it changes, or neither."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.send.put import PutMessageResult
from rocketpy.broker.transaction import transactional_message
from rocketpy.broker.transaction.replay import LeftOpen
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService, TransactionEnd
from rocketpy.protocol.message import MessageExt
from rocketpy.store.results import PutMessageStatus
from tests.broker.transaction.transaction_broker import TransactionBroker, open_transaction_broker

ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"
TIMES = "TRANSACTION_CHECK_TIMES"


async def opened(broker: TransactionBroker, body: bytes = b"hello") -> tuple[TransactionalMessageService, MessageExt]:
    """Return the service and the record of a transaction that is open."""
    broker.half(body)
    service = broker.feature.service
    service.catch_up()
    return service, (await broker.halves())[-1]


def refuse(broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Let the store refuse every message but the next few."""
    put, left = broker.message_put.put, [after]

    def refused(message: object) -> PutMessageResult:
        left[0] -= 1
        if left[0] >= 0:
            return put(message)  # type: ignore[arg-type]
        return PutMessageResult(PutMessageStatus.OS_PAGECACHE_BUSY, -1, -1, "T", 0)

    monkeypatch.setattr(broker.message_put, "put", refused)


# ---- ends -----------------------------------------------------------------------------------------------------------


async def test_a_commit_delivers_once_and_says_that_it_is_over() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        assert service.newest(half) == 0
        assert service.end_of(half) is None
        assert service.commit(half).is_ok
        assert service.newest(half) is None
        assert service.end_of(half) is TransactionEnd.COMMITTED
        broker.store.end_burst()
        assert await broker.delivered() == [b"hello"]
        (op,) = await broker.ops()
        assert (op.body, op.properties.get(ORIGIN)) == (b"0", None), "as Java writes it"


async def test_a_half_message_that_is_not_in_the_table_yet_is_open() -> None:
    """A producer may end it in the moment in which it was stored."""
    async with open_transaction_broker() as broker:
        broker.half()
        (half,) = await broker.halves()
        assert broker.feature.service.newest(half) == 0
        assert broker.feature.service.commit(half).is_ok


@pytest.mark.parametrize("queue_offset", [1, 1_000, 1 << 40, 1 << 62])
async def test_the_table_catches_up_with_the_half_queue_and_not_with_what_a_record_says(queue_offset: int) -> None:
    """Counting up to it would take for ever, and make half messages of numbers."""
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        assert service.newest(attrs.evolve(half, queue_offset=queue_offset)) is None
        assert broker.feature.transactions.known_end == 1
        assert len(broker.feature.transactions) == 1


async def test_a_rollback_delivers_nothing_and_ends_all_records() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        copy = service.renew(half, check_times=1)
        assert copy is not None
        assert service.roll_back(copy).is_ok
        assert service.end_of(half) is TransactionEnd.ROLLED_BACK
        broker.store.end_burst()
        assert await broker.delivered() == []
        (op,) = await broker.ops()
        assert (op.body, op.properties[ORIGIN]) == (b"1", "0"), "the newest record, and whose it is"


async def test_a_commit_by_an_old_record_names_its_transaction() -> None:
    """Without the name a start could not tell this commit from that of the newest record, if its op were lost."""
    async with open_transaction_broker() as broker:
        service, first = await opened(broker)
        assert service.renew((await broker.halves())[0], check_times=1) is not None
        assert service.commit(first).is_ok
        broker.store.end_burst()
        (delivered,) = await broker.messages("TopicTest", 2)
        assert delivered.properties[ORIGIN] == "0"


async def test_a_commit_that_the_store_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        refuse(broker, monkeypatch)
        assert not service.commit(half).is_ok
        assert not service.roll_back(half).is_ok
        assert not service.give_up(half)
        assert service.newest(half) == 0
        assert service.end_of(half) is None
        assert await broker.ops() == await broker.delivered() == await broker.given_up() == []


async def test_a_delivery_whose_op_message_is_refused_is_over_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is delivered: a repeated request must not deliver it again."""
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        refuse(broker, monkeypatch, after=1)
        assert service.commit(half).is_ok
        assert service.newest(half) is None
        assert service.end_of(half) is TransactionEnd.COMMITTED
    assert "the op message of transaction 0, committed, was refused" in caplog.text


async def test_a_half_message_without_a_target_is_not_delivered_anywhere() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        del half.properties["REAL_TOPIC"]
        with pytest.raises(ValueError, match="expected REAL_TOPIC"):
            service.commit(half)
        assert service.newest(half) == 0


async def test_ends_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_message, "KEPT_ENDS_MAX", 2)
    async with open_transaction_broker() as broker:
        halves = []
        for body in (b"0", b"1", b"2"):
            service, half = await opened(broker, body)
            service.roll_back(half)
            halves.append(half)
        assert [service.end_of(half) for half in halves] == [
            None,
            TransactionEnd.ROLLED_BACK,
            TransactionEnd.ROLLED_BACK,
        ]
        assert [service.newest(half) for half in halves] == [None] * 3, "over it is, and stays"


# ---- copies ---------------------------------------------------------------------------------------------------------


async def test_a_copy_is_the_newest_record_and_counts_the_checks() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        copy = service.renew(half, check_times=3)
        assert copy is not None
        assert (copy.queue_offset, copy.properties[TIMES], copy.properties[ORIGIN]) == (1, "3", "0")
        again = service.renew(copy, check_times=None)
        assert again is not None
        assert (again.queue_offset, again.properties[TIMES], again.properties[ORIGIN]) == (2, "3", "0")
        assert service.newest(again) == 2
        broker.store.end_burst()
        stored = (await broker.halves())[-1]
        assert stored.properties == again.properties
        assert (stored.queue_offset, stored.physical_offset) == (again.queue_offset, again.physical_offset)


async def test_a_copy_does_not_hide_half_messages_that_came_before_it() -> None:
    """A half message that is not in the table yet is open: the table goes by offsets."""
    async with open_transaction_broker() as broker:
        service, first = await opened(broker, b"first")
        broker.half(b"second")
        assert service.renew(first, check_times=1) is not None
        service.catch_up()
        _, second, _ = await broker.halves()
        assert service.newest(second) == 1
        assert service.newest(first) == 2


async def test_a_refused_copy_leaves_the_record_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        refuse(broker, monkeypatch)
        before = dict(half.properties), half.queue_offset, half.physical_offset
        assert service.renew(half, check_times=1) is None
        assert (half.properties, half.queue_offset, half.physical_offset) == before
        assert service.newest(half) == 0


# ---- given up, and taken up again -----------------------------------------------------------------------------------


async def test_what_is_given_up_lies_where_operators_find_it_and_can_be_taken_up() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        half.properties[TIMES] = "15"
        assert service.give_up(half)
        assert service.end_of(half) is TransactionEnd.GIVEN_UP
        broker.store.end_burst()
        (found,) = await broker.given_up()
        assert service.resume(found)
        assert service.newest(half) == 1
        broker.store.end_burst()
        copy = (await broker.halves())[-1]
        assert (copy.properties[TIMES], copy.properties[ORIGIN]) == ("0", "0"), "from the beginning, and still the same"


@pytest.mark.parametrize("end", [TransactionEnd.COMMITTED, TransactionEnd.ROLLED_BACK])
async def test_what_was_ended_by_its_producer_is_not_taken_up_again(end: TransactionEnd) -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        (service.commit if end is TransactionEnd.COMMITTED else service.roll_back)(half)
        broker.store.end_burst()
        count = len(await broker.halves())
        assert not service.resume((await broker.halves())[0])
        broker.store.end_burst()
        assert len(await broker.halves()) == count


async def test_a_record_that_java_gave_up_becomes_a_transaction_of_its_own() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        service.give_up(half)
        broker.store.end_burst()
        (found,) = await broker.given_up()
        del found.properties[ORIGIN]
        assert service.resume(found)
        broker.store.end_burst()
        copy = (await broker.halves())[-1]
        assert ORIGIN not in copy.properties
        assert service.newest(copy) == copy.queue_offset == 1


async def test_a_refused_copy_takes_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        service.give_up(half)
        broker.store.end_burst()
        (found,) = await broker.given_up()
        refuse(broker, monkeypatch)
        assert not service.resume(found)
        assert service.newest(half) is None


# ---- a start --------------------------------------------------------------------------------------------------------


async def test_a_start_puts_the_op_messages_that_are_missing() -> None:
    async with open_transaction_broker(load=False) as broker:
        for body in (b"0", b"1"):
            broker.half(body)
        broker.feature.service.load(LeftOpen({0: 0, 1: 1}, 2, (0,)))
        broker.store.end_burst()
        assert [op.body for op in await broker.ops()] == [b"0"]
        first, second = await broker.halves()
        assert broker.feature.service.newest(first) is None
        assert broker.feature.service.newest(second) == 1


async def test_a_transaction_without_a_stored_record_is_removed() -> None:
    async with open_transaction_broker() as broker:
        service, half = await opened(broker)
        service.drop(0)
        assert service.newest(half) is None
        assert await broker.ops() == []
