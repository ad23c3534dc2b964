"""Transactions as the broker has them: one table for who ends, who checks and who starts; a slave ends none."""

from __future__ import annotations

from rocketpy.broker.transaction.feature import TransactionFeature
from rocketpy.broker.transaction.replay import queue_ends
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import MessageStoreConfig
from tests.broker.tables_of_a_broker import context_of
from tests.broker.transaction.transaction_broker import end_request, open_transaction_broker


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
