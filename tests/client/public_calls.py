"""A call of every public coroutine of the client, by its name: for tests that make all of them under some hardship.

Each call opens the roles that it needs and closes them; none takes longer than :data:`CALL_SECONDS` of Trio's clock in
a world that answers. ``tests/client/test_public_calls.py`` holds the table to the public names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import (
    Client,
    open_admin_client,
    open_client,
    open_lite_pull_consumer,
    open_producer,
    open_pull_consumer,
)
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.client.producer.transaction import LocalTransactionState, Transaction
from rocketpy.client.replies import reply_to
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from tests.client.conftest import FIRST, LITE_FIRST

TOPIC = "TopicTest"
GROUP = "g"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
HANDLED_SECONDS = 40.0
"""How long a consumer waits for a message that may never come."""
CALL_SECONDS = 300.0
"""No call takes longer."""
UNIQUE_KEY = "7F0000010001000000000000000000AB"


@attrs.frozen
class Caller:
    """Where calls go: a client, and addresses of what is behind it."""

    client: Client
    name_server: str
    broker: str
    environment: ClientEnvironment
    config: ClientConfig | None = None
    offset_msg_id: str = UNIQUE_KEY
    delivered: list[MessageExt] = attrs.field(factory=list)
    """What a program has been given of the messages of its group."""
    acknowledged: list[MessageExt] = attrs.field(factory=list)
    """What it has said that it is done with."""
    begun: list[Call] = attrs.field(factory=list)
    """Calls of ``IN_ROLE`` whose role is open."""

    @property
    def admin(self) -> AdminClient:
        return self.client.admin(timeout_ms=1000)


Call: TypeAlias = "Callable[[Caller], Awaitable[object]]"
IN_ROLE: set[Call] = set()
"""Calls that note when their role is open; the openings themselves are calls, too."""


def message() -> Message:
    """Return a message that any broker stores."""
    return Message(TOPIC, b"x" * 20, {"KEYS": "k", "TAGS": "a"})


def stored(caller: Caller) -> MessageExt:
    """Return a message as its broker knows it."""
    return MessageExt(topic=TOPIC, body=b"x", properties={}, store_host=caller.broker, broker_name="broker-a")


async def _check(half: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.COMMIT_MESSAGE


# ---- producers -----------------------------------------------------------------------------------------------------


def _producing(call: Callable[[Any], Awaitable[object]]) -> Call:
    async def make(caller: Caller) -> object:
        async with caller.client.producer("p") as producer:
            return await call(producer)

    return make


async def _batched(producer: Any, *, soon: bool) -> object:
    async with producer.batching() as batching:
        return await (await batching.send_soon(message()) if soon else batching.send(message()))


async def _encoded(producer: Any) -> object:
    async with producer.batching() as batching:
        batch = EncodedBatch(TOPIC, encode_batch_body([Message(TOPIC, b"x", {"WAIT": "true", "UNIQ_KEY": "K"})]))
        return await (await batching.send_encoded(batch))


async def _batching_closed(producer: Any) -> None:
    async with producer.batching() as batching:
        pending = batching.send_nowait(message())
        await batching.aclose()
    await pending


async def _closed(producer: Any) -> None:
    producer.send_nowait(message())
    await producer.aclose()


async def _soon(producer: Any) -> object:
    return await (await producer.send_soon(message()))


def _in_transaction(call: Callable[[Any], Awaitable[object]]) -> Call:
    async def make(caller: Caller) -> object:
        async with caller.client.transaction_producer("p", check=_check) as producer:
            return await call(producer)

    return make


def _ending(call: Callable[[Transaction], Awaitable[object]]) -> Call:
    async def run(producer: Any) -> None:
        async with producer.transaction(message()) as transaction:
            await call(transaction)

    return _in_transaction(run)


async def _execute(transaction: Transaction) -> LocalTransactionState:
    return LocalTransactionState.COMMIT_MESSAGE


async def _verdict(producer: Any) -> None:
    async with producer.transaction(message()) as transaction:
        await producer.send_verdict(transaction, LocalTransactionState.COMMIT_MESSAGE, None)


# ---- consumers -----------------------------------------------------------------------------------------------------


def _handling(*, is_orderly: bool) -> Call:
    """Have one batch handled, and end the consumer from within its handler."""

    async def make(caller: Caller) -> int:
        handled = 0

        async def handler(batch: MessageBatch) -> None:
            nonlocal handled
            handled += len(batch)
            caller.delivered.extend(batch)
            caller.acknowledged.extend(batch)
            nursery.cancel_scope.cancel()

        async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + HANDLED_SECONDS
            await (consumer.run_orderly if is_orderly else consumer.run)(handler)
        return handled

    return make


async def _wait_assigned(caller: Caller) -> object:
    async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer:
        with trio.move_on_after(HANDLED_SECONDS):
            return await consumer.wait_assigned()
    return None


async def _wait_ready(caller: Caller) -> None:
    async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer:
        await consumer.wait_ready(HANDLED_SECONDS)


async def _draining(caller: Caller) -> object:
    """Finish the first batch of a loop, which is told to end meanwhile."""
    async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + HANDLED_SECONDS
        async for batch in consumer:
            caller.delivered.extend(batch)
            nursery.start_soon(consumer.drain, HANDLED_SECONDS)
            await trio.sleep(1)
        caller.acknowledged.extend(batch)
    return None


async def _state_changed(caller: Caller) -> object:
    """Return the first change, if something changes."""
    with trio.move_on_after(HANDLED_SECONDS):
        return await anext(caller.client.state_changes())
    return None


def _iterating(settle: Callable[[MessageBatch], Awaitable[object]]) -> Call:
    async def make(caller: Caller) -> None:
        async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer:
            with trio.move_on_after(HANDLED_SECONDS):
                caller.begun.append(make)
                batch = await anext(consumer.batches(acknowledges=False))
                caller.delivered.extend(batch)
                await settle(batch)
                caller.acknowledged.extend(batch)

    IN_ROLE.add(make)
    return make


async def _next_batch(caller: Caller) -> None:
    async with caller.client.consumer(GROUP, TOPIC, config=FIRST) as consumer:
        with trio.move_on_after(HANDLED_SECONDS):
            batches = consumer.batches()
            caller.delivered.extend(await anext(batches))
            caller.delivered.extend(await anext(batches))


def _pulling(call: Callable[[Any], Awaitable[object]]) -> Call:
    async def make(caller: Caller) -> object:
        async with caller.client.pull_consumer("pull") as consumer:
            caller.begun.append(make)
            return await call(consumer)

    IN_ROLE.add(make)
    return make


def _pulling_a_share(call: Callable[[Caller, Any], Awaitable[object]]) -> Call:
    async def make(caller: Caller) -> object:
        async with caller.client.pull_consumer(GROUP, TOPIC) as consumer:
            with trio.move_on_after(HANDLED_SECONDS):
                return await call(caller, consumer)
        return None

    return make


async def _run_pull_task(caller: Caller, consumer: Any) -> None:
    """Pull each queue once, and note its progress: the end of the consumer stores it."""

    async def task(queue: MessageQueue) -> float:
        result = await consumer.pull(queue, await consumer.consumer_offset(queue) or 0)
        caller.delivered.extend(result.messages)
        await consumer.commit(queue, result.next_begin_offset, persist=False)
        caller.acknowledged.extend(result.messages)
        if result.messages:
            nursery.cancel_scope.cancel()
        return HANDLED_SECONDS

    async with trio.open_nursery() as nursery:
        await consumer.run_pull_task(TOPIC, task)


async def _send_message_back(consumer: Any) -> bool:
    result = await consumer.pull(QUEUE, 0)
    back: bool = await consumer.send_message_back(result.messages[0])
    return back


async def _streamed(consumer: Any, *, commits: bool, until_end: bool = True) -> list[bytes]:
    bodies: list[bytes] = []
    async with consumer.open_messages(TOPIC, start="beginning", until_end=until_end) as stream:
        with trio.move_on_after(HANDLED_SECONDS):
            async for each in stream:
                bodies.append(each.body)
                if commits:
                    await stream.commit(with_last=True)
                if len(bodies) >= 4:
                    break
    return bodies


def _polling(call: Callable[[Caller, Any], Awaitable[object]]) -> Call:
    """Call a subscribed lite pull consumer that has its queues."""

    async def make(caller: Caller) -> object:
        async with caller.client.lite_pull_consumer(GROUP, TOPIC, config=LITE_FIRST) as consumer:
            with trio.move_on_after(HANDLED_SECONDS):
                while QUEUE not in await consumer.wait_assigned():
                    await trio.sleep(1)
                caller.begun.append(make)
                return await call(caller, consumer)
        return None

    IN_ROLE.add(make)
    return make


def _polled(get: Callable[[Any], Awaitable[list[MessageExt]]]) -> Callable[[Caller, Any], Awaitable[list[MessageExt]]]:
    async def poll(caller: Caller, consumer: Any) -> list[MessageExt]:
        messages = await get(consumer)
        caller.delivered.extend(messages)
        return messages

    return poll


_poll = _polled(lambda consumer: consumer.poll(10.0))


async def _commit_polled(caller: Caller, consumer: Any) -> object:
    messages = await _poll(caller, consumer)
    await consumer.commit()
    caller.acknowledged.extend(messages)
    return messages


async def _committed(caller: Caller, consumer: Any) -> object:
    await _poll(caller, consumer)
    await consumer.commit(persist=False)
    return await consumer.committed(QUEUE)


async def _drain_polls(caller: Caller, consumer: Any) -> object:
    caller.delivered.extend(await consumer.poll(10.0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consumer.drain, HANDLED_SECONDS)
        await consumer.commit()
    return None


async def _assigning(caller: Caller) -> object:
    async with caller.client.lite_pull_consumer("lite", config=LITE_FIRST) as consumer:
        await consumer.assign([QUEUE])
        return await consumer.poll(10.0)


async def _opened_lite_pull(caller: Caller) -> object:
    opening = open_lite_pull_consumer(
        caller.name_server, group="lite", topics=[TOPIC], environment=caller.environment, config=caller.config
    )
    async with opening as consumer:
        return await consumer.poll(10.0)


# ---- opening -------------------------------------------------------------------------------------------------------


async def _opened_client(caller: Caller) -> None:
    async with open_client(caller.name_server, environment=caller.environment, config=caller.config):
        await trio.lowlevel.checkpoint()


async def _opened_producer(caller: Caller) -> object:
    async with open_producer(caller.name_server, environment=caller.environment, config=caller.config) as producer:
        return await producer.send(message())


async def _opened_pull_consumer(caller: Caller) -> object:
    opening = open_pull_consumer(caller.name_server, group="pull", environment=caller.environment, config=caller.config)
    async with opening as consumer:
        return await consumer.pull(QUEUE, 0)


async def _opened_admin(caller: Caller) -> object:
    async with open_admin_client(caller.name_server, environment=caller.environment, config=caller.config) as admin:
        return await admin.cluster_info()


async def _opened_transactions(caller: Caller) -> object:
    async with caller.client.transaction_producer("p", check=_check) as producer:
        return await producer.producer.send(message())


CLIENT_CALLS: dict[str, Call] = {
    "open_client": _opened_client,
    "open_producer": _opened_producer,
    "open_pull_consumer": _opened_pull_consumer,
    "open_admin_client": _opened_admin,
    "Client.producer": _producing(lambda producer: producer.send(message())),
    "Client.transaction_producer": _opened_transactions,
    "Client.pull_consumer": _pulling(lambda consumer: consumer.pull(QUEUE, 0)),
    "Client.consumer": _wait_assigned,
    "Client.wait_ready": lambda c: c.client.wait_ready(HANDLED_SECONDS, TOPIC),
    "StateChanges.__anext__": _state_changed,
    "Producer.wait_ready": _producing(lambda producer: producer.wait_ready(HANDLED_SECONDS, TOPIC)),
    "TransactionProducer.wait_ready": _in_transaction(lambda producer: producer.wait_ready(HANDLED_SECONDS, TOPIC)),
    "Producer.send": _producing(lambda producer: producer.send(message())),
    "Producer.send_with": _producing(lambda producer: producer.send_with(message(), properties={"PGROUP": "p"})),
    "Producer.request": _producing(lambda producer: producer.request(message(), timeout_s=5.0)),
    "Producer.send_batch": _producing(lambda producer: producer.send_batch([message(), message()])),
    "Producer.send_all": _producing(lambda producer: producer.send_all([message(), message()])),
    "Producer.send_oneway": _producing(lambda producer: producer.send_oneway(message())),
    "Producer.send_soon": _producing(_soon),
    "Producer.batching": _producing(lambda producer: _batched(producer, soon=False)),
    "Producer.publish_queues": _producing(lambda producer: producer.publish_queues(TOPIC)),
    "Producer.aclose": _producing(_closed),
    "BatchingProducer.send": _producing(lambda producer: _batched(producer, soon=False)),
    "BatchingProducer.send_soon": _producing(lambda producer: _batched(producer, soon=True)),
    "BatchingProducer.send_encoded": _producing(_encoded),
    "BatchingProducer.aclose": _producing(_batching_closed),
    "PendingSend.wait": _producing(lambda producer: producer.send_nowait(message()).wait()),
    "TransactionProducer.transaction": _ending(lambda transaction: transaction.commit()),
    "TransactionProducer.send_in_transaction": _in_transaction(
        lambda producer: producer.send_in_transaction(message(), _execute)
    ),
    "TransactionProducer.send_verdict": _in_transaction(_verdict),
    "Transaction.commit": _ending(lambda transaction: transaction.commit()),
    "Transaction.rollback": _ending(lambda transaction: transaction.rollback()),
    "Transaction.end": _ending(lambda transaction: transaction.end(LocalTransactionState.UNKNOW, "later")),
    "Consumer.run": _handling(is_orderly=False),
    "Consumer.run_orderly": _handling(is_orderly=True),
    "Consumer.wait_assigned": _wait_assigned,
    "Consumer.wait_ready": _wait_ready,
    "Consumer.drain": _draining,
    "BatchIterator.__anext__": _next_batch,
    "MessageBatch.done": _iterating(lambda batch: batch.done()),
    "MessageBatch.retry_later": _iterating(lambda batch: batch.retry_later()),
    "MessageBatch.dead_letter": _iterating(lambda batch: batch.dead_letter()),
    "AssignmentIterator.__anext__": _polling(lambda caller, consumer: anext(aiter(consumer.assignment_changes()))),
    "open_lite_pull_consumer": _opened_lite_pull,
    "Client.lite_pull_consumer": _polling(lambda caller, consumer: consumer.poll(0)),
    "LitePullConsumer.__anext__": _polling(_polled(anext)),
    "LitePullConsumer.assign": _assigning,
    "LitePullConsumer.commit": _polling(_commit_polled),
    "LitePullConsumer.committed": _polling(_committed),
    "LitePullConsumer.fetch_message_queues": _polling(lambda caller, consumer: consumer.fetch_message_queues(TOPIC)),
    "LitePullConsumer.max_offset": _polling(lambda caller, consumer: consumer.max_offset(QUEUE)),
    "LitePullConsumer.min_offset": _polling(lambda caller, consumer: consumer.min_offset(QUEUE)),
    "LitePullConsumer.offset_for_timestamp": _polling(lambda caller, consumer: consumer.offset_for_timestamp(QUEUE, 1)),
    "LitePullConsumer.poll": _polling(_poll),
    "LitePullConsumer.seek": _polling(lambda caller, consumer: consumer.seek(QUEUE, 1)),
    "LitePullConsumer.seek_to_begin": _polling(lambda caller, consumer: consumer.seek_to_begin(QUEUE)),
    "LitePullConsumer.seek_to_end": _polling(lambda caller, consumer: consumer.seek_to_end(QUEUE)),
    "LitePullConsumer.subscribe": _polling(lambda caller, consumer: consumer.subscribe("Other", "tag")),
    "LitePullConsumer.unsubscribe": _polling(lambda caller, consumer: consumer.unsubscribe(TOPIC)),
    "LitePullConsumer.drain": _polling(_drain_polls),
    "LitePullConsumer.wait_ready": _polling(lambda caller, consumer: consumer.wait_ready(HANDLED_SECONDS)),
    "LitePullConsumer.wait_assigned": _polling(lambda caller, consumer: consumer.wait_assigned()),
    "QueueChanges.__anext__": _polling(lambda caller, consumer: anext(consumer.queue_changes(TOPIC))),
    "PullConsumer.run_pull_task": _pulling_a_share(_run_pull_task),
    "PullConsumer.wait_assigned": _pulling_a_share(lambda caller, consumer: consumer.wait_assigned()),
    "PullConsumer.wait_ready": _pulling_a_share(lambda caller, consumer: consumer.wait_ready(HANDLED_SECONDS)),
    "PullConsumer.queues": _pulling(lambda consumer: consumer.queues(TOPIC)),
    "PullConsumer.pull": _pulling(lambda consumer: consumer.pull(QUEUE, 0, suspend_ms=1000)),
    "PullConsumer.min_offset": _pulling(lambda consumer: consumer.min_offset(QUEUE)),
    "PullConsumer.max_offset": _pulling(lambda consumer: consumer.max_offset(QUEUE)),
    "PullConsumer.search_offset": _pulling(lambda consumer: consumer.search_offset(QUEUE, 1)),
    "PullConsumer.consumer_offset": _pulling(lambda consumer: consumer.consumer_offset(QUEUE)),
    "PullConsumer.commit": _pulling(lambda consumer: consumer.commit(QUEUE, 1)),
    "PullConsumer.send_message_back": _pulling(_send_message_back),
    "PullConsumer.start_offset": _pulling(lambda consumer: consumer.start_offset(QUEUE, -1)),
    "PullConsumer.open_messages": _pulling(lambda consumer: _streamed(consumer, commits=False, until_end=False)),
    "MessageStream.__anext__": _pulling(lambda consumer: _streamed(consumer, commits=False)),
    "MessageStream.commit": _pulling(lambda consumer: _streamed(consumer, commits=True)),
}

ADMIN_CALLS: dict[str, Call] = {
    "AdminClient.cluster_info": lambda c: c.admin.cluster_info(),
    "AdminClient.create_topic": lambda c: c.admin.create_topic(TOPIC),
    "AdminClient.route": lambda c: c.admin.route(TOPIC),
    "AdminClient.routes": lambda c: c.admin.routes([TOPIC, "Other"]),
    "AdminClient.track": lambda c: c.admin.track(stored(c)),
    "AccountAdmin.update": lambda c: c.admin.accounts.update(c.broker, PlainAccessConfig("key", "secret")),
    "AccountAdmin.delete": lambda c: c.admin.accounts.delete(c.broker, "key"),
    "AccountAdmin.update_global_white_addresses": lambda c: c.admin.accounts.update_global_white_addresses(
        c.broker, ["10.0.0.1"]
    ),
    "AccountAdmin.version": lambda c: c.admin.accounts.version(c.broker),
    "BrokerAdmin.clusters": lambda c: c.admin.brokers.clusters(),
    "BrokerAdmin.config": lambda c: c.admin.brokers.config(c.broker),
    "BrokerAdmin.consume_queue": lambda c: c.admin.brokers.consume_queue(c.broker, TOPIC, 0, index=0, count=1),
    "BrokerAdmin.runtime_info": lambda c: c.admin.brokers.runtime_info(c.broker),
    "BrokerAdmin.stats": lambda c: c.admin.brokers.stats(c.broker, "TOPIC_PUT_NUMS", TOPIC),
    "BrokerAdmin.update_config": lambda c: c.admin.brokers.update_config(c.broker, {"a": "b"}),
    "CleaningAdmin.clean_expired_consume_queues": lambda c: c.admin.cleaning.clean_expired_consume_queues(),
    "CleaningAdmin.clean_unused_topics": lambda c: c.admin.cleaning.clean_unused_topics(),
    "CleaningAdmin.delete_expired_commit_logs": lambda c: c.admin.cleaning.delete_expired_commit_logs(),
    "ClientAdmin.all_producers": lambda c: c.admin.clients.all_producers(c.broker),
    "ClientAdmin.consumers": lambda c: c.admin.clients.consumers(GROUP),
    "ClientAdmin.offsets": lambda c: c.admin.clients.offsets(TOPIC, GROUP),
    "ClientAdmin.producers": lambda c: c.admin.clients.producers("p", TOPIC),
    "ClientAdmin.running_info": lambda c: c.admin.clients.running_info(GROUP, "id"),
    "GroupAdmin.config": lambda c: c.admin.groups.config(c.broker, GROUP),
    "GroupAdmin.configs": lambda c: c.admin.groups.configs(c.broker),
    "GroupAdmin.create": lambda c: c.admin.groups.create(SubscriptionGroupConfig(GROUP)),
    "GroupAdmin.delete": lambda c: c.admin.groups.delete(c.broker, GROUP),
    "GroupAdmin.update": lambda c: c.admin.groups.update(c.broker, SubscriptionGroupConfig(GROUP)),
    "GroupAdmin.user_configs": lambda c: c.admin.groups.user_configs(c.broker),
    "MessageAdmin.consume_directly": lambda c: c.admin.messages.consume_directly(GROUP, "id", c.offset_msg_id),
    "MessageAdmin.find": lambda c: c.admin.messages.find(TOPIC, c.offset_msg_id),
    "MessageAdmin.find_by_unique_key": lambda c: c.admin.messages.find_by_unique_key(TOPIC, UNIQUE_KEY),
    "MessageAdmin.query": lambda c: c.admin.messages.query(TOPIC, "k"),
    "MessageAdmin.query_unique_key": lambda c: c.admin.messages.query_unique_key(TOPIC, UNIQUE_KEY),
    "MessageAdmin.resume_check": lambda c: c.admin.messages.resume_check(c.offset_msg_id),
    "MessageAdmin.trace": lambda c: c.admin.messages.trace(UNIQUE_KEY),
    "MessageAdmin.view": lambda c: c.admin.messages.view(c.offset_msg_id),
    "NameServerAdmin.add_write_perm": lambda c: c.admin.name_servers.add_write_perm("broker-a"),
    "NameServerAdmin.clusters_by_address": lambda c: c.admin.name_servers.clusters_by_address(),
    "NameServerAdmin.config": lambda c: c.admin.name_servers.config(),
    "NameServerAdmin.delete_kv": lambda c: c.admin.name_servers.delete_kv("n", "k"),
    "NameServerAdmin.delete_order_conf": lambda c: c.admin.name_servers.delete_order_conf(TOPIC),
    "NameServerAdmin.kv": lambda c: c.admin.name_servers.kv("n", "k"),
    "NameServerAdmin.kv_list": lambda c: c.admin.name_servers.kv_list("n"),
    "NameServerAdmin.order_conf": lambda c: c.admin.name_servers.order_conf(TOPIC),
    "NameServerAdmin.put_kv": lambda c: c.admin.name_servers.put_kv("n", "k", "v"),
    "NameServerAdmin.put_order_conf": lambda c: c.admin.name_servers.put_order_conf(
        TOPIC, "broker-a:4", is_cluster=False
    ),
    "NameServerAdmin.update_config": lambda c: c.admin.name_servers.update_config({"a": "b"}),
    "NameServerAdmin.wipe_write_perm": lambda c: c.admin.name_servers.wipe_write_perm("broker-a"),
    "OffsetAdmin.clone": lambda c: c.admin.offsets.clone(GROUP, "other", TOPIC),
    "OffsetAdmin.commit": lambda c: c.admin.offsets.commit(c.broker, "other", QUEUE, 1),
    "OffsetAdmin.corrections": lambda c: c.admin.offsets.corrections(c.broker, TOPIC, GROUP),
    "OffsetAdmin.earliest_store_time": lambda c: c.admin.offsets.earliest_store_time(QUEUE),
    "OffsetAdmin.max_offset": lambda c: c.admin.offsets.max_offset(QUEUE),
    "OffsetAdmin.min_offset": lambda c: c.admin.offsets.min_offset(QUEUE),
    "OffsetAdmin.progress": lambda c: c.admin.offsets.progress(GROUP, TOPIC),
    "OffsetAdmin.progress_at": lambda c: c.admin.offsets.progress_at(c.broker, GROUP),
    "OffsetAdmin.progress_of_all": lambda c: c.admin.offsets.progress_of_all(c.broker),
    "OffsetAdmin.search_offset": lambda c: c.admin.offsets.search_offset(QUEUE, 1),
    "OffsetAdmin.time_spans": lambda c: c.admin.offsets.time_spans(TOPIC, GROUP),
    "ResetAdmin.reset": lambda c: c.admin.resets.reset(TOPIC, GROUP, 1),
    "ResetAdmin.reset_offline": lambda c: c.admin.resets.reset_offline(TOPIC, GROUP, 1),
    "ResetAdmin.reset_online": lambda c: c.admin.resets.reset_online(TOPIC, GROUP, 1),
    "TopicAdmin.clusters": lambda c: c.admin.topics.clusters(TOPIC),
    "TopicAdmin.config": lambda c: c.admin.topics.config(c.broker, TOPIC),
    "TopicAdmin.configs": lambda c: c.admin.topics.configs(c.broker),
    "TopicAdmin.consumer_groups": lambda c: c.admin.topics.consumer_groups(TOPIC),
    "TopicAdmin.create": lambda c: c.admin.topics.create(TOPIC),
    "TopicAdmin.create_like": lambda c: c.admin.topics.create_like(TOPIC, "Other", queue_nums=4),
    "TopicAdmin.delete": lambda c: c.admin.topics.delete(TOPIC, cluster="cluster"),
    "TopicAdmin.delete_in_brokers": lambda c: c.admin.topics.delete_in_brokers([c.broker], TOPIC),
    "TopicAdmin.delete_in_name_servers": lambda c: c.admin.topics.delete_in_name_servers(TOPIC),
    "TopicAdmin.names": lambda c: c.admin.topics.names(),
    "TopicAdmin.names_in_cluster": lambda c: c.admin.topics.names_in_cluster("cluster"),
    "TopicAdmin.publish_queues": lambda c: c.admin.topics.publish_queues(TOPIC),
    "TopicAdmin.route": lambda c: c.admin.topics.route(TOPIC),
    "TopicAdmin.routes": lambda c: c.admin.topics.routes([TOPIC]),
    "TopicAdmin.stats": lambda c: c.admin.topics.stats(TOPIC),
    "TopicAdmin.subscribe_queues": lambda c: c.admin.topics.subscribe_queues(TOPIC),
    "TopicAdmin.system_names": lambda c: c.admin.topics.system_names(),
    "TopicAdmin.unit_names": lambda c: c.admin.topics.unit_names(),
    "TopicAdmin.unit_subscribed_names": lambda c: c.admin.topics.unit_subscribed_names(),
    "TopicAdmin.update": lambda c: c.admin.topics.update(c.broker, TopicConfig(TOPIC)),
    "TopicAdmin.user_configs": lambda c: c.admin.topics.user_configs(c.broker),
}


async def _reply(producer: Any) -> object:
    request = message()
    request.properties["CLUSTER"] = "cluster"
    return await producer.send(reply_to(request, b"reply"))


async def _selected(caller: Caller) -> object:
    selected = {TOPIC: MessageSelector.by_sql("a > 5")}
    async with caller.client.consumer(GROUP, subscriptions=selected, config=FIRST) as consumer:
        with trio.move_on_after(HANDLED_SECONDS):
            return await consumer.wait_assigned()
    return None


MORE_CALLS: dict[str, Call] = {
    "a reply": _producing(_reply),
    "a consumer with SQL92": _selected,
    "names of topics without units": lambda c: c.admin.topics.unit_subscribed_names(outside_unit=True),
}
"""Calls of the same coroutines that send other request codes."""

CALLS = CLIENT_CALLS | ADMIN_CALLS
