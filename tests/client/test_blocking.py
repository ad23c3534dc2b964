"""The client in plain code, with a broker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from rocketpy.client import (
    ConsumeOrderlyStatus,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    StateSubject,
    blocking,
)
from rocketpy.errors import LocalProtocolError, NotReadyError
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.client.conftest import BODIES, FIRST, LITE_FIRST
from tests.patience import PATIENCE_SECONDS


def test_every_role_works(broker: BrokerInThread) -> None:
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.create_topic("Roles", queue_nums=2)
    with blocking.open_client(broker.name_server) as client:
        with client.producer("g") as producer, producer.batching() as batching:
            assert producer.send(Message("Roles", b"0")).msg_id
            producer.send_batch([Message("Roles", b"1")])
            batching.send_soon(Message("Roles", b"2")).wait()
            producer.send_oneway(Message("Roles", b"3"))
        with client.transaction_producer("t", check=_check) as transactions:
            with transactions.transaction(Message("Roles", b"4")) as transaction:
                transaction.commit()
            result = transactions.send_in_transaction(Message("Roles", b"never"), _roll_back)
        assert result.local_transaction_state is LocalTransactionState.ROLLBACK_MESSAGE
        assert sorted(_poll(broker.name_server)) == BODIES
        assert len(_call_pull_task(client)) == 2
        assert sorted(_handle(client)) == BODIES
        assert sorted(_iterate(client)) == BODIES
        with (
            client.pull_consumer("r") as consumer,
            consumer.open_messages("Roles", start="beginning", until_end=True) as messages,
        ):
            assert sorted(message.body for message in messages) == BODIES


def _check(_: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.UNKNOW


def _roll_back(transaction: blocking.Transaction) -> LocalTransactionState:
    assert isinstance(transaction, blocking.Transaction)
    assert transaction.transaction_id
    return LocalTransactionState.ROLLBACK_MESSAGE


def _poll(name_server: str) -> list[bytes]:
    polled: list[bytes] = []
    with blocking.open_lite_pull_consumer(name_server, group="lite", topics=["Roles"], consumer=LITE_FIRST) as consumer:
        queues = consumer.wait_assigned()
        consumer.pause(queues)
        assert consumer.paused == queues
        consumer.resume(queues)
        for messages in consumer:
            polled += [each.body for each in messages]
            consumer.commit()
            if len(polled) == len(BODIES):
                break
    return polled


def _call_pull_task(client: blocking.Client) -> set[MessageQueue]:
    called: set[MessageQueue] = set()
    all_called = threading.Event()

    def task(queue: MessageQueue) -> None:
        called.add(queue)
        if len(called) == 2:
            all_called.set()

    def call() -> None:
        with pytest.raises(LocalProtocolError, match="was closed while the call was in progress"):
            consumer.run_pull_task("Roles", task)

    with ThreadPoolExecutor() as threads:
        with client.pull_consumer("p", "Roles") as consumer:
            calling = threads.submit(call)
            assert all_called.wait(PATIENCE_SECONDS)
        assert calling.exception(PATIENCE_SECONDS) is None
    return called


def _iterate(client: blocking.Client) -> list[bytes]:
    bodies: list[bytes] = []
    with client.consumer("c", "Roles", config=FIRST) as consumer:
        for batch in consumer:
            bodies += [each.body for each in batch]
            if len(bodies) == len(BODIES):
                batch.done()
                break
    return bodies


def _handle(client: blocking.Client) -> list[bytes]:
    """Consume in order; the first batch is suspended once."""
    bodies: list[bytes] = []
    suspended: list[blocking.MessageBatch] = []
    handled = threading.Event()

    def handle(batch: blocking.MessageBatch) -> ConsumeOrderlyStatus:
        if not suspended:
            suspended.append(batch)
            batch.suspend_ms = 10
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        bodies.extend(each.body for each in batch)
        if len(bodies) == len(BODIES):
            handled.set()
        return ConsumeOrderlyStatus.SUCCESS

    def consume() -> None:
        with pytest.raises(LocalProtocolError, match="was closed while the call was in progress"):
            consumer.run_orderly(handle, tasks=1)

    with ThreadPoolExecutor() as threads:
        with client.consumer("o", "Roles", config=FIRST) as consumer:
            consuming = threads.submit(consume)
            assert handled.wait(PATIENCE_SECONDS)
        assert consuming.exception(PATIENCE_SECONDS) is None
    return bodies


def test_a_handler_that_takes_too_long_is_left_and_its_message_goes_back(
    broker: BrokerInThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Its only thread hangs, and what comes after it is handled all the same."""
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.create_topic("Hang", queue_nums=1)
    seen: list[bytes] = []
    went_on, released = threading.Event(), threading.Event()

    def handle(batch: blocking.MessageBatch) -> None:
        seen.append(batch.messages[0].body)
        if len(seen) == 1:
            assert released.wait(PATIENCE_SECONDS)
        went_on.set()

    config = attrs.evolve(FIRST, consume_timeout=0.001, persist_consumer_offset_interval=10)
    with blocking.open_client(broker.name_server) as client, ThreadPoolExecutor() as threads:
        with client.producer("g") as producer:
            for each in BODIES[:2]:
                producer.send(Message("Hang", each))
        with client.consumer("h", "Hang", config=config) as consumer:
            threads.submit(consumer.run, handle, tasks=1)
            assert went_on.wait(PATIENCE_SECONDS)
            released.set()
        assert "a handler of MessageQueue(topic='Hang'" in caplog.text
        assert "took too long, its 1 messages are redelivered" in caplog.text
    assert seen == BODIES[:2]


def test_a_consumer_is_drained_and_its_states_are_seen(broker: BrokerInThread) -> None:
    with blocking.open_client("127.0.0.1:1") as lost:
        with pytest.raises(NotReadyError, match=r"127\.0\.0\.1:1"):
            lost.wait_ready(0.1)
        assert next(iter(lost.state_changes())).subject is StateSubject.NAME_SERVER
    broker.topic("Drained", queues=1)
    begun, finish = threading.Event(), threading.Event()

    def handle(batch: blocking.MessageBatch) -> None:
        begun.set()
        assert finish.wait(PATIENCE_SECONDS)

    with blocking.open_client(broker.name_server) as client, ThreadPoolExecutor() as threads:
        with client.producer("g") as producer:
            for each in BODIES:
                producer.send(Message("Drained", each))
        with client.consumer("dp", "Drained", config=FIRST) as consumer:
            running = threads.submit(consumer.run, handle, tasks=1, fail_fast_s=PATIENCE_SECONDS)
            assert begun.wait(PATIENCE_SECONDS)
            draining = threads.submit(consumer.drain, PATIENCE_SECONDS)
            finish.set()
            assert draining.result(PATIENCE_SECONDS)
            running.result(PATIENCE_SECONDS)
            assert consumer.statistics().unacknowledged_count == 0
