"""Transactions as the broker has them: one table for who ends, who checks and who starts; a slave ends none."""

from __future__ import annotations

import pytest

from rocketpy.broker.transaction.feature import TransactionFeature
from rocketpy.broker.transaction.replay import queue_ends
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.send import ResumeCheckHalfMessageRequestHeader
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.tables_of_a_broker import context_of
from tests.broker.transaction.transaction_broker import end_request, open_transaction_broker


async def test_who_ends_and_who_checks_share_one_table() -> None:
    """What a producer ends, no round asks about; what a round renews, the producer ends."""
    async with open_transaction_broker() as broker:
        half = broker.half(b"first", age_ms=60_000)
        other = broker.half(b"second", age_ms=60_000)
        await broker.end(half)
        broker.later(60)
        (check,) = await broker.round(broker.producer())
        assert check.message.body == b"second"
        assert (await broker.end(other)) is not None
        assert await broker.delivered() == [b"first", b"second"]
        assert broker.service.statistics().open_count == 0


@pytest.mark.parametrize(
    ("role", "code"),
    [(BrokerRole.ASYNC_MASTER, ResponseCode.SUCCESS), (BrokerRole.SLAVE, ResponseCode.SLAVE_NOT_AVAILABLE)],
)
async def test_a_slave_refuses_by_its_settings(role: BrokerRole, code: int) -> None:
    disk = SimDisk()
    async with open_transaction_broker(disk=disk) as broker:
        half, tables = broker.half(), broker.tables
    async with open_transaction_broker(disk=disk, tables=tables, store={"broker_role": role}) as broker:
        answer = await broker.end(half)
        assert answer is not None
        assert answer.code == code


async def test_an_end_that_had_to_wait_wakes_those_who_wait_for_the_message() -> None:
    """It comes outside of any burst, which would otherwise serve the pulls that it wakes."""
    woken: list[None] = []
    async with open_transaction_broker(load=False) as broker:
        feature = TransactionFeature(
            context_of(broker.tables, broker.store, MessageStoreConfig()), message_put=broker.message_put
        )
        dispatcher = Dispatcher(end_burst=broker.store.end_burst, after_replies=lambda: woken.append(None))
        feature.register(dispatcher)
        broker.dispatcher = dispatcher
        half = broker.half()
        connection = broker.connect()
        connection.receive(encode_frame(end_request(half)))
        connection.serve(10)
        ((function, arguments),) = broker.transport.tasks
        assert woken == []
        await feature.check_service.load(queue_ends(broker.store))
        await function(*arguments)
        assert len(woken) == 1
        assert await broker.delivered() == [b"hello"]


async def test_given_up_transactions_are_taken_up_in_the_same_table() -> None:
    async with open_transaction_broker(transaction_check_max=1) as broker:
        broker.half(age_ms=10_000)
        for _ in range(2):
            broker.later(60)
            await broker.round()
        (given_up,) = await broker.given_up()
        header = ResumeCheckHalfMessageRequestHeader(given_up.offset_msg_id)
        (answer,) = await broker.ask_all(make_request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))
        assert answer.code == ResponseCode.SUCCESS
        broker.later(60)
        assert len(await broker.round(broker.producer())) == 1
