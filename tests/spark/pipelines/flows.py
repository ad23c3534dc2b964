"""A store that our own broker wrote, with a message of each way through it: the truth is known."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, LocalTransactionState, Message, MessageExt, open_client
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions

SETTINGS = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000, "transactionCheckMax": 3}
RETRIES = 2


@attrs.define
class Flows:
    """The store, and the unique keys of its messages by what was done with them."""

    store: Path
    unique_keys: dict[str, str] = attrs.field(factory=dict)


def make_store(directory: Path) -> Flows:
    """Run a broker, send a message each way, and return a copy of its store."""
    flows = Flows(directory / "store")
    with open_broker_in_thread(BrokerOptions(settings=SETTINGS)) as broker:
        flows.unique_keys |= send_ways(broker)
        broker.restart()  # a clean shutdown writes the tables
        broker.crash()
        shutil.copytree(Path(broker.directory) / "store", flows.store)
    return flows


def send_ways(broker: BrokerInThread) -> dict[str, str]:
    """Send a message each way, and return their unique keys by what was done with them."""
    unique_keys: dict[str, str] = {}
    for topic in ("Plain", "Delayed", "Retried", "Tx"):
        broker.topic(topic, queues=1)
    trio.run(_send_all, broker, unique_keys)
    return unique_keys


async def _send_all(broker: BrokerInThread, unique_keys: dict[str, str]) -> None:
    async def verdict(message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW

    async with open_client(broker.name_server) as client:
        async with client.producer("producer") as producer:
            sent = {
                "plain": await producer.send(Message.create("Plain", b"plain", keys="order-1 customer-7")),
                "waiting": await producer.send(Message.create("Plain", b"never consumed")),
                "delivered": await producer.send(Message.create("Delayed", b"soon", delay_level=3)),
                "delayed": await producer.send(Message.create("Delayed", b"in two hours", delay_level=18)),
                "dead": await producer.send(Message.create("Retried", b"impossible")),
            }
        unique_keys |= {name: result.msg_id for name, result in sent.items()}
        await _in_thread(broker.advance, 11)
        await _consume_first(client, "Plain")
        await _give_back(client, broker)
        async with client.transaction_producer("tx-producer", check=verdict) as producer:
            for name in ("committed", "rolled back", "given up", "open"):
                if name == "open":
                    await _in_thread(broker.advance, 11)  # the others are checked as often as the settings allow
                async with producer.transaction(Message("Tx", name.encode())) as transaction:
                    unique_keys[name] = transaction.transaction_id
                    if name == "committed":
                        await transaction.commit()
                    elif name == "rolled back":
                        await transaction.rollback()


async def _in_thread(function: object, *arguments: object) -> None:
    await trio.to_thread.run_sync(function, *arguments)  # type: ignore[arg-type]


async def _consume_first(client: object, topic: str) -> None:
    """Acknowledge the first message of a topic, as a group that then stops."""
    async with (
        client.pull_consumer("readers") as reader,  # type: ignore[attr-defined]
        reader.open_messages(topic, start="stored") as messages,
    ):
        await anext(messages)
        await messages.commit()


async def _give_back(client: object, broker: BrokerInThread) -> None:
    """Give a message back until it is a dead letter."""
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume_times=RETRIES)
    async with client.consumer("stubborn", "Retried", config=config) as consumer:  # type: ignore[attr-defined]
        async for batch in consumer:
            (message,) = batch
            await batch.retry_later()
            if message.reconsume_times == RETRIES:
                break
            await _in_thread(broker.advance, 60)
