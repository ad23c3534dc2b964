"""Transactions and request-reply between our client and Java's and Go's: who decides, who is asked, who answers."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rocketpy.client import (
    Client,
    EndTransactionContext,
    LocalTransactionState,
    MessageBatch,
    MessageExt,
    Producer,
    Transaction,
    TransactionProducer,
    queue_by_hash,
    reply_to,
)
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.codes import ResponseCode
from tests.interop.clients import ToSend
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.conftest import BROKERS, JAVA_BROKER, TARGET, chosen_cluster
from tests.interop.our_client import (
    FROM_FIRST,
    PATIENT_PRODUCER,
    open_our_client,
    open_our_consumer,
    our_message,
)
from tests.interop.roles import Roles
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.java, pytest.mark.go]

FAST_CHECKS = {"transactionTimeOut": 1000, "transactionCheckInterval": 2000, "transactionCheckMax": 15}


@pytest.fixture(scope="module", params=BROKERS)
def checking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, java_jars: Path
) -> Iterator[Cluster]:
    """A cluster that asks soon what became of a transaction: one under test, and Java's that all tests share."""
    if request.param == JAVA_BROKER:
        yield chosen_cluster(request)
        return
    cluster = start_cluster(TARGET, tmp_path_factory.mktemp("conversations"), settings=FAST_CHECKS)
    try:
        yield cluster
    finally:
        statuses = cluster.stop()
    assert not any(statuses), cluster.logs()


@pytest.fixture
async def ours(checking: Cluster) -> AsyncIterator[Client]:
    """A client of ours."""
    async with open_our_client(checking.namesrv) as client:
        yield client


STATES = {
    "commit": LocalTransactionState.COMMIT_MESSAGE,
    "rollback": LocalTransactionState.ROLLBACK_MESSAGE,
    "unknown": LocalTransactionState.UNKNOW,
}


def half(topic: str, sender: str, first: str, then: str = "unknown") -> ToSend:
    """Return a message whose properties say what its local transaction, and a check of it, come to."""
    return ToSend(
        topic=topic, body=f"{sender} {first} {then}".encode(), keys="k", properties={"first": first, "then": then}
    )


async def local_transaction(transaction: Transaction) -> LocalTransactionState:
    """Do what the message says."""
    return STATES[transaction.message.properties["first"]]


class Checked:
    """Answers checks as the message says, and notes them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, message: MessageExt) -> LocalTransactionState:
        self.bodies.append(message.body)
        return STATES[message.properties["then"]]


@asynccontextmanager
async def open_transactions(client: Client, group: str) -> AsyncIterator[tuple[TransactionProducer, Checked]]:
    """Open a producer of transactions of ours."""
    checked = Checked()
    async with client.transaction_producer(group, check=checked, config=PATIENT_PRODUCER) as producer:
        yield producer, checked


async def send_halves(producer: TransactionProducer, messages: Sequence[ToSend]) -> None:
    """Send each in a transaction of ours."""
    for each in messages:
        await producer.send_in_transaction(our_message(each), local_transaction)


async def test_a_transaction_of_each_client_is_seen_by_all_when_it_is_committed_and_only_then(
    checking: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    topic = checking.create_topic("transacted")

    def halves(sender: str) -> list[ToSend]:
        decided = [half(topic, sender, first) for first in ("commit", "rollback")]
        return [*decided, *(half(topic, sender, "unknown", then) for then in ("commit", "rollback"))]

    async with (
        open_our_consumer(ours, "transacted_ours", topic) as (_, collected),
        java.consumer(checking.namesrv, "transacted_java", topic) as of_java,
        go.consumer(checking.namesrv, "transacted_go", topic) as of_go,
        open_transactions(ours, "transactions_ours") as (producer, checked),
        java.producer(checking.namesrv, "transactions_java") as java_producer,
        go.producer(checking.namesrv, "transactions_go", kind="transactions") as go_producer,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_halves, producer, halves("ours"))
            nursery.start_soon(java_producer.send, halves("java"), "transaction")
            nursery.start_soon(go_producer.send, halves("go"), "transaction")
        seen = sorted(
            f"{sender} {what}".encode()
            for sender in ("ours", "java", "go")
            for what in ("commit unknown", "unknown commit")
        )
        await collected.wait(len(seen))
        await of_java.wait_messages(len(seen))
        await of_go.wait_messages(len(seen))
        # Those to be rolled back have been asked about too.
        await collected.until(lambda: b"ours unknown rollback" in checked.bodies, "a check")
    for found in (collected.messages, of_java.messages(), of_go.messages()):
        assert sorted(each.body for each in found) == seen
    assert set(checked.bodies) == {b"ours unknown commit", b"ours unknown rollback"}


async def test_a_check_is_answered_by_another_client_of_the_group(
    checking: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    """The broker asks any producer of the group: one of Java's or Go's for ours that is gone, and the reverse."""
    topic = checking.create_topic("inherited")
    async with open_our_consumer(ours, "inherited_ours", topic) as (_, collected):

        async def from_ours(others: Roles, kind: str) -> None:
            group = f"inherited_by_{others.language}"
            async with others.producer(checking.namesrv, group, kind=kind) as heir:
                async with (
                    open_our_client(checking.namesrv) as leaving,
                    open_transactions(leaving, group) as (first, _),
                ):
                    await send_halves(first, [half(topic, others.language, "unknown", "commit")])
                await heir.send([half(topic, "known", "rollback")], "transaction")
                lines = await heir.wait_lines("checked", 1)
                body = f"{others.language} unknown commit".encode()
                await collected.until(lambda: body in collected.bodies, f"{body!r}")  # it prints before it answers
            assert {str(each["keys"]) for each in lines} == {"k"}

        async def to_ours(others: Roles, kind: str) -> None:
            group = f"inherited_from_{others.language}"
            async with open_transactions(ours, group) as (heir, checked):
                async with others.producer(checking.namesrv, group, kind=kind) as first:
                    await first.send([half(topic, f"ours for {others.language}", "unknown", "commit")], "transaction")
                await send_halves(heir, [half(topic, "known", "rollback")])
                await collected.until(lambda: checked.bodies, "a check")

        async with trio.open_nursery() as nursery:
            for others, kind in ((java, "producer"), (go, "transactions")):
                nursery.start_soon(from_ours, others, kind)
                nursery.start_soon(to_ours, others, kind)
        await collected.wait(4)
    assert collected.bodies == sorted(
        f"{each} unknown commit".encode() for each in ("java", "go", "ours for java", "ours for go")
    )


class Verdicts:
    """A hook that notes the verdicts of a producer, and whether a broker has asked for them."""

    hook_name = "verdicts"

    def __init__(self) -> None:
        self.found: list[tuple[str, bool]] = []

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Note one."""
        self.found.append((context.transaction_state.name, context.from_transaction_check))


async def test_a_local_transaction_that_raises_is_asked_about_and_a_hook_sees_each_verdict(
    checking: Cluster, ours: Client
) -> None:
    topic = checking.create_topic("raised")
    verdicts, checked = Verdicts(), Checked()

    async def fail(transaction: Transaction) -> LocalTransactionState:
        raise ValueError("the test wants it")

    async with (
        open_our_consumer(ours, "raised", topic) as (_, collected),
        ours.transaction_producer(
            "raised", check=checked, config=PATIENT_PRODUCER, end_transaction_hooks=[verdicts]
        ) as producer,
    ):
        result = await producer.send_in_transaction(our_message(half(topic, "ours", "raises", "commit")), fail)
        (message,) = await collected.wait(1)
    assert result.local_transaction_state is LocalTransactionState.UNKNOW
    assert message.body == b"ours raises commit"
    assert message.properties["UNIQ_KEY"] == result.send_result.msg_id
    assert verdicts.found[:2] == [("UNKNOW", False), ("COMMIT_MESSAGE", True)]
    assert checked.bodies[0] == message.body


# ---- request-reply ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_replier(client: Client, producer: Producer, group: str, topic: str) -> AsyncIterator[None]:
    """Open a consumer of ours that answers each message with its body turned round."""

    async def reply(batch: MessageBatch) -> None:
        for each in batch:
            if "CORRELATION_ID" in each.properties:
                await producer.send(reply_to(each, each.body[::-1]))

    async with (
        client.consumer(group, topic, config=FROM_FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(consumer.run, reply)
        yield
        nursery.cancel_scope.cancel()


ASKED_S = 5.0  # to send a request and to wait for a reply that does not come
BODIES = (b"stressed", b"abc" * 3000)
"""One that is small and one that travels compressed."""


async def test_requests_of_each_client_are_answered_by_the_others(
    checking: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    topics = {name: checking.create_topic(f"asked_{name}") for name in ("ours", "java", "go")}

    def to(name: str) -> list[ToSend]:
        return [ToSend(topic=topics[name], body=body) for body in BODIES]

    async def ask(producer: Producer, name: str) -> None:
        for number, each in enumerate(to(name)):
            selector = queue_by_hash(number) if number else None
            reply = await producer.request(our_message(each), timeout_s=PATIENCE_SECONDS, queue=selector)
            assert reply.body == each.body[::-1]
            assert reply.properties["MSG_TYPE"] == "reply"

    async def asked_by(others: Roles) -> None:
        async with others.producer(checking.namesrv, f"asking_{others.language}") as producer:
            # Go does not send a heartbeat before a request, so that the broker may not know where its reply goes to.
            await producer.send([ToSend(topic=topics["ours"], body=b"first of all")])
            await trio.to_thread.run_sync(checking.wait_producer, f"asking_{others.language}", abandon_on_cancel=True)
            lines = await producer.request(to("ours"))
        assert [b64decode(str(each["body"])) for each in lines] == [body[::-1] for body in BODIES]

    async with (
        ours.producer("asking_ours", config=PATIENT_PRODUCER) as producer,
        open_replier(ours, producer, "replying_ours", topics["ours"]),
        java.consumer(checking.namesrv, "replying_java", topics["java"], replies=True),
        go.consumer(checking.namesrv, "replying_go", topics["go"], replies=True),
        trio.open_nursery() as nursery,
    ):
        for name in topics:
            nursery.start_soon(ask, producer, name)
        for others in (java, go):
            nursery.start_soon(asked_by, others)


async def test_a_request_without_a_reply_ends_with_java_s_code_and_a_reply_to_nobody_is_refused(
    checking: Cluster, ours: Client
) -> None:
    topic = checking.create_topic("unanswered")
    async with (
        open_our_client(checking.namesrv) as asking,
        asking.producer("asking_nobody", config=PATIENT_PRODUCER) as producer,
    ):
        with pytest.raises(ClientError) as caught:
            await producer.request(our_message(ToSend(topic=topic, body=b"?")), timeout_s=ASKED_S)
    assert caught.value.response_code == 10006
    async with (
        open_our_consumer(ours, "too_late", topic) as (_, collected),
        ours.producer("too_late", config=PATIENT_PRODUCER) as producer,
    ):
        (request,) = await collected.wait(1)
        with pytest.raises(BrokerError, match=f"channel of <{asking.client_id}> not found") as refused:
            await producer.send(reply_to(request, b"!"))
    assert refused.value.response_code == ResponseCode.SYSTEM_ERROR
