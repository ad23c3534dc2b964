"""Every change of a transaction is one step: the records it puts and the table it changes, or neither."""

from __future__ import annotations

import attrs
import pytest
import trio

from rocketpy.broker.send.put import PutMessageResult
from rocketpy.broker.transaction import transactional_message
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService, TransactionEnd
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from rocketpy.store.results import PutMessageStatus
from tests.broker.transaction.transaction_broker import TransactionBroker, open_transaction_broker

ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"


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


@pytest.mark.parametrize("queue_offset", [1, 1 << 62])
async def test_the_table_catches_up_with_the_half_queue_and_not_with_what_a_record_says(
    broker: TransactionBroker, queue_offset: int
) -> None:
    """Counting up to it would take for ever, and make half messages of numbers."""
    service, half = await opened(broker)
    assert service.newest(attrs.evolve(half, queue_offset=queue_offset)) is None
    assert (broker.feature.transactions.known_end, broker.open_count) == (1, 1)


async def test_a_commit_by_an_old_record_names_its_transaction(broker: TransactionBroker) -> None:
    """Without the name a start could not tell this commit from that of the newest record, if its op were lost."""
    service, first = await opened(broker)
    assert service.renew((await broker.halves())[0], check_times=1) is not None
    assert service.commit(first).is_ok
    broker.store.end_burst()
    (delivered,) = await broker.messages("TopicTest", 2)
    assert delivered.properties[ORIGIN] == "0"


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


async def test_a_copy_does_not_hide_half_messages_that_came_before_it(broker: TransactionBroker) -> None:
    """A half message that is not in the table yet is open: the table goes by offsets."""
    service, first = await opened(broker, b"first")
    broker.half(b"second")
    assert service.renew(first, check_times=1) is not None
    service.catch_up()
    _, second, _ = await broker.halves()
    assert service.newest(second) == 1
    assert service.newest(first) == 2


async def test_a_refused_copy_takes_nothing_up(broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    service, half = await opened(broker)
    service.give_up(half)
    broker.store.end_burst()
    (found,) = await broker.given_up()
    refuse(broker, monkeypatch)
    assert not service.resume(found)
    assert service.newest(half) is None


async def test_a_copy_follows_half_messages_that_the_transient_pool_has_not_committed() -> None:
    """They are before it in the half queue, which does not show them yet; they are open transactions all the same."""
    async with open_transaction_broker(store={"transient_store_pool_enable": True}) as broker:
        broker.half(b"hello")
        service = broker.feature.service
        while not broker.store.max_offset_in_queue(TRANS_HALF_TOPIC, 0):
            await trio.sleep(1)
        service.catch_up()
        (half,) = await broker.halves()
        broker.half(b"in the pool")
        assert broker.store.max_offset_in_queue(TRANS_HALF_TOPIC, 0) == 1, "the second one is not committed"
        assert service.renew(half, check_times=1) is not None
        assert broker.open_count == 2
        assert broker.feature.transactions.known_end == 3
        await broker.service.check()
        assert broker.open_count == 2, "what cannot be read yet is not lost"
