"""The client in asyncio programs, with a broker."""

from __future__ import annotations

import asyncio

import pytest

from rocketpy.client import (
    Client,
    ConsumeOrderlyStatus,
    LocalTransactionState,
    Message,
    MessageBatch,
    MessageExt,
    MessageQueue,
    StateSubject,
    Transaction,
    TransactionSendResult,
    aio,
)
from rocketpy.errors import NotReadyError
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.client.conftest import BODIES, FIRST, LITE_FIRST
from tests.patience import PATIENCE_SECONDS


def test_every_role_works(broker: BrokerInThread) -> None:
    async def main() -> list[bytes]:
        async with aio.open_admin_client(broker.name_server) as admin:
            await admin.create_topic("Roles", queue_nums=2)
        async with aio.open_client(broker.name_server) as client:
            await client.wait_ready(PATIENCE_SECONDS, "Roles")
            assert client.troubles == []
            async with client.producer("g") as producer, producer.batching() as batching:
                assert (await producer.send(Message("Roles", b"0"))).msg_id
                await producer.send_batch([Message("Roles", b"1")])
                await (await batching.send_soon(Message("Roles", b"2")))
                await producer.send_oneway(Message("Roles", b"3"))
            async with (
                client.transaction_producer("t", check=_check) as transactions,
                transactions.transaction(Message("Roles", b"4")) as transaction,
            ):
                await transaction.commit()
            result = await _in_transaction(client)
            assert result.local_transaction_state is LocalTransactionState.ROLLBACK_MESSAGE
            assert sorted(await _poll(broker.name_server)) == BODIES
            assert len(await _call_pull_task(client)) == 2
            assert sorted(await _handle(client)) == BODIES
            assert sorted(await _iterate(client)) == BODIES
            async with (
                client.pull_consumer("r") as consumer,
                consumer.open_messages("Roles", start="beginning", until_end=True) as messages,
            ):
                return [message.body async for message in messages]

    assert sorted(asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))) == BODIES


async def _check(_: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.UNKNOW


async def _in_transaction(client: Client) -> TransactionSendResult:
    async def roll_back(transaction: Transaction) -> LocalTransactionState:
        assert transaction.transaction_id
        return LocalTransactionState.ROLLBACK_MESSAGE

    async with client.transaction_producer("t", check=_check) as producer:
        return await producer.send_in_transaction(Message("Roles", b"never"), roll_back)


async def _poll(name_server: str) -> list[bytes]:
    polled: list[bytes] = []
    async with aio.open_lite_pull_consumer(name_server, group="lite", topics=["Roles"], consumer=LITE_FIRST) as lite:
        queues = await lite.wait_assigned()
        lite.pause(queues)
        assert lite.paused == queues
        lite.resume(queues)
        async for messages in lite:
            polled += [each.body for each in messages]
            await lite.commit()
            if len(polled) == len(BODIES):
                break
    return polled


async def _call_pull_task(client: Client) -> set[MessageQueue]:
    called: set[MessageQueue] = set()
    all_called = asyncio.Event()

    async def task(queue: MessageQueue) -> None:
        await asyncio.sleep(0)
        called.add(queue)
        if len(called) == 2:
            all_called.set()

    async with client.pull_consumer("p", "Roles") as consumer:
        running = asyncio.ensure_future(consumer.run_pull_task("Roles", task))
        await all_called.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    return called


async def _iterate(client: Client) -> list[bytes]:
    bodies: list[bytes] = []
    async with client.consumer("c", "Roles", config=FIRST) as consumer:
        async for batch in consumer:
            bodies += [each.body for each in batch]
            if len(bodies) == len(BODIES):
                await batch.done()
                break
    return bodies


async def _handle(client: Client) -> list[bytes]:
    """Consume in order; the first batch is suspended once."""
    bodies: list[bytes] = []
    suspended: list[MessageBatch] = []
    handled = asyncio.Event()

    async def handle(batch: MessageBatch) -> ConsumeOrderlyStatus:
        await asyncio.sleep(0)
        if not suspended:
            suspended.append(batch)
            batch.suspend_ms = 10
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        bodies.extend(each.body for each in batch)
        if len(bodies) == len(BODIES):
            handled.set()
        return ConsumeOrderlyStatus.SUCCESS

    async with client.consumer("o", "Roles", config=FIRST) as consumer:
        running = asyncio.ensure_future(consumer.run_orderly(handle))
        await handled.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    return bodies


def test_a_consumer_is_drained_and_its_states_are_seen(broker: BrokerInThread) -> None:
    async def main() -> None:
        async with aio.open_client("127.0.0.1:1") as lost:
            with pytest.raises(NotReadyError, match=r"127\.0\.0\.1:1"):
                await lost.wait_ready(0.1)
            assert (await anext(aiter(lost.state_changes()))).subject is StateSubject.NAME_SERVER
        broker.topic("Drained", queues=1)
        begun, finish = asyncio.Event(), asyncio.Event()

        async def handle(batch: MessageBatch) -> None:
            begun.set()
            await finish.wait()

        async with aio.open_client(broker.name_server) as client:
            async with client.producer("g") as producer:
                for each in BODIES:
                    await producer.send(Message("Drained", each))
            async with client.consumer("d", "Drained", config=FIRST) as consumer:
                running = asyncio.ensure_future(consumer.run(handle, tasks=1, fail_fast_s=PATIENCE_SECONDS))
                await begun.wait()
                draining = asyncio.ensure_future(consumer.drain(PATIENCE_SECONDS))
                finish.set()
                assert await draining
                await running
                assert consumer.statistics().unacknowledged_count == 0

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
