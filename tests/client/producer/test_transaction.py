"""Transactions: half messages, verdicts, checks, and what happens where local work fails."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from rocketpy.client.client import open_client
from rocketpy.client.hooks import EndTransactionContext
from rocketpy.client.producer.transaction import Check, Transaction, TransactionProducer
from rocketpy.client.results import LocalTransactionState, SendStatus
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.bodies.route import BrokerData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeBroker, FakeCluster
from tests.patience import until

COMMIT, ROLLBACK, UNKNOW = (
    LocalTransactionState.COMMIT_MESSAGE,
    LocalTransactionState.ROLLBACK_MESSAGE,
    LocalTransactionState.UNKNOW,
)


async def never_asked(message: MessageExt) -> LocalTransactionState:
    raise AssertionError(message)


def take_verdicts(broker: FakeBroker) -> None:
    broker.register(RequestCode.END_TRANSACTION, lambda connection, request: None)


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[TransactionProducer]:
    """A producer of the group g whose verdicts a broker takes, and never asks for."""
    take_verdicts(cluster.broker)
    async with open_client(cluster.address) as client, client.transaction_producer("g", check=never_asked) as opened:
        yield opened


def verdicts(broker: FakeBroker) -> list[EndTransactionRequestHeader]:
    return [read_header(each, EndTransactionRequestHeader) for each in broker.asked(RequestCode.END_TRANSACTION)]


@pytest.mark.parametrize(
    ("verdict", "number"),
    [(COMMIT, 8), (ROLLBACK, 12), (UNKNOW, 0), (None, 0)],
    ids=["committed", "rolled back", "unknown", "none"],
)
async def test_verdicts(
    cluster: FakeCluster, verdict: LocalTransactionState | None, number: int, producer: TransactionProducer
) -> None:
    async def execute(transaction: Transaction) -> LocalTransactionState:
        return verdict  # type: ignore[return-value]

    message = Message(TOPIC, b"x", {"DELAY": "3"})
    result = await producer.send_in_transaction(message, execute)
    async with producer.transaction(message) as transaction:
        assert transaction.transaction_id == transaction.send_result.msg_id
        if verdict is COMMIT:
            await transaction.commit()
        if verdict is ROLLBACK:
            await transaction.rollback()
    await until(lambda: len(verdicts(cluster.broker)) == 2)
    assert result.local_transaction_state is (verdict or UNKNOW)
    assert [each.commit_or_rollback for each in verdicts(cluster.broker)] == [number, number]
    assert not any("DELAY" in half.properties for half in cluster.broker.messages(TOPIC)), "as in Java"


async def test_a_local_transaction_that_fails_is_unknow_and_says_why(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, producer: TransactionProducer
) -> None:
    async def execute(transaction: Transaction) -> LocalTransactionState:
        raise ValueError("no money")

    result = await producer.send_in_transaction(Message(TOPIC, b"x"), execute)
    with pytest.raises(ValueError, match="no money"):
        async with producer.transaction(Message(TOPIC, b"x")) as transaction:
            await execute(transaction)
    await until(lambda: len(verdicts(cluster.broker)) == 2)
    assert result.local_transaction_state is UNKNOW
    for end in cluster.broker.asked(RequestCode.END_TRANSACTION):
        assert end.remark == "executeLocalTransactionBranch exception: ValueError('no money')"
        assert read_header(end, EndTransactionRequestHeader).commit_or_rollback == 0
    assert "its state is UNKNOW" in caplog.text
    assert caplog.text.count("has ended unknown, its broker will ask a producer of group g about it: exec") == 2


async def test_a_half_message_that_is_not_safe_is_rolled_back(
    cluster: FakeCluster, producer: TransactionProducer
) -> None:
    async def execute(transaction: Transaction) -> LocalTransactionState:
        raise AssertionError

    cluster.broker.stored_as = 10
    result = await producer.send_in_transaction(Message(TOPIC, b"x"), execute)
    with pytest.raises(ClientError, match="rolled back: it was stored with FLUSH_DISK_TIMEOUT"):
        async with producer.transaction(Message(TOPIC, b"x")):
            raise AssertionError
    await until(lambda: len(verdicts(cluster.broker)) == 2)
    assert (result.send_result.status, result.local_transaction_state) == (SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK)
    assert {each.commit_or_rollback for each in verdicts(cluster.broker)} == {12}


async def test_without_half_message_there_is_no_transaction(
    cluster: FakeCluster, producer: TransactionProducer
) -> None:
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY, "busy")
    with pytest.raises(BrokerError, match="busy"):
        async with producer.transaction(Message(TOPIC, b"x")):
            raise AssertionError


async def test_there_is_one_verdict(producer: TransactionProducer) -> None:
    async with producer.transaction(Message(TOPIC, b"x")) as transaction:
        await transaction.commit()
        with pytest.raises(ClientError, match="has ended with COMMIT_MESSAGE"):
            await transaction.rollback()


@pytest.mark.parametrize("verdict", [COMMIT, ROLLBACK])
async def test_a_block_that_fails_after_its_verdict_raises_its_own_failure(
    cluster: FakeCluster, verdict: LocalTransactionState, producer: TransactionProducer
) -> None:
    with pytest.raises(ValueError, match="after the verdict"):
        async with producer.transaction(Message(TOPIC, b"x")) as transaction:
            await transaction.end(verdict)
            raise ValueError("after the verdict")
    async with producer.transaction(Message(TOPIC, b"y")) as transaction:
        await transaction.end(verdict)
    await until(lambda: len(verdicts(cluster.broker)) == 2)
    assert {each.commit_or_rollback for each in verdicts(cluster.broker)} == {verdict.value}


async def test_a_transaction_that_is_cancelled_here_says_what_the_broker_does_not_know(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, producer: TransactionProducer
) -> None:
    """In its block, and while its verdict waits for a connection."""
    with trio.CancelScope() as scope:
        async with producer.transaction(Message(TOPIC, b"x")) as transaction:
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert transaction.state is None
    assert f"transaction {transaction.transaction_id} to topic {TOPIC} has ended unknown" in caplog.text
    with trio.CancelScope() as scope:
        async with producer.transaction(Message(TOPIC, b"x")) as transaction:
            del cluster.name_server.routes[TOPIC]  # its broker has to be looked up
            object.__setattr__(transaction.send_result, "message_queue", MessageQueue(TOPIC, "gone", 0))
            scope.cancel()
            await transaction.commit()
    assert f"COMMIT_MESSAGE on message {transaction.transaction_id} was not sent: it was cancelled" in caplog.text
    assert verdicts(cluster.broker) == []


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        (TopicRouteData(), r"The broker[gone] not exist"),
        (TopicRouteData(broker_datas=[BrokerData("cluster", "gone", {0: "127.0.0.1:1"})]), "127.0.0.1:1"),
    ],
    ids=["an unknown broker", "an unreachable broker"],
)
async def test_a_verdict_that_cannot_be_sent_is_logged(
    cluster: FakeCluster,
    route: TopicRouteData,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    producer: TransactionProducer,
) -> None:
    """The broker will ask about the transaction."""
    transaction = Transaction(
        Message(TOPIC, b"x"), await producer.producer.send(Message(TOPIC, b"x")), producer.send_verdict
    )
    cluster.name_server.routes[TOPIC] = route
    object.__setattr__(transaction.send_result, "message_queue", MessageQueue(TOPIC, "gone", 0))
    await transaction.commit()
    assert "the verdict COMMIT_MESSAGE" in caplog.text
    assert reason in caplog.text


@pytest.mark.parametrize(
    ("state", "number", "remark"),
    [
        (COMMIT, 8, None),
        (ROLLBACK, 12, None),
        (None, 0, None),
        (ValueError("?"), 0, "checkLocalTransactionState Exception: ValueError('?')"),
        (AssertionError("!"), 0, "checkLocalTransactionState Exception: AssertionError('!')"),
    ],
)
async def test_a_check_is_answered_by_a_verdict(
    cluster: FakeCluster,
    state: LocalTransactionState | Exception | None,
    number: int,
    remark: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="rocketpy.client")
    take_verdicts(cluster.broker)
    asked: list[MessageExt] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        asked.append(message)
        if isinstance(state, Exception):
            raise state
        return state  # type: ignore[return-value]

    half = MessageExt(TOPIC, b"half", {"PGROUP": "g", "UNIQ_KEY": "A" * 32})
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=5, commit_log_offset=8332, msg_id="A" * 32, transaction_id="t", broker_name="broker-a"
    )
    async with open_client(cluster.address) as client, client.transaction_producer("g", check=check) as producer:
        await producer.producer.send(Message(TOPIC, b"x"))
        for group in ("g", "another"):
            half.properties["PGROUP"] = group
            request = make_request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(half))
            cluster.broker.peers[-1].oneway(request)
        await until(lambda: verdicts(cluster.broker))
    (end,) = cluster.broker.asked(RequestCode.END_TRANSACTION)
    assert (end.is_oneway, end.remark) == (True, remark)
    assert end.ext_fields == {
        "producerGroup": "g",
        "bname": "broker-a",
        "commitLogOffset": "8332",
        "msgId": "A" * 32,
        "tranStateTableOffset": "5",
        "commitOrRollback": str(number),
        "fromTransactionCheck": "true",
        "transactionId": "t",
    }
    assert [each.body for each in asked] == [b"half"]
    (line,) = [each for each in caplog.records if "has asked group g about transaction" in each.getMessage()]
    assert line.levelname == ("INFO" if number else "WARNING")


async def test_a_producer_that_comes_again_is_asked_itself(cluster: FakeCluster) -> None:
    """Its group is free once its block has ended, and a check in between is answered by nothing."""
    take_verdicts(cluster.broker)
    half = MessageExt(TOPIC, b"half", {"PGROUP": "g", "UNIQ_KEY": "A" * 32})
    header = CheckTransactionStateRequestHeader(tran_state_table_offset=5, commit_log_offset=8332)
    request = make_request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(half))

    def rolls(state: LocalTransactionState) -> Check:
        async def check(message: MessageExt) -> LocalTransactionState:
            return state

        return check

    async with open_client(cluster.address) as client:
        for count, state in enumerate((COMMIT, ROLLBACK), 1):
            async with client.transaction_producer("g", check=rolls(state)) as producer:
                with pytest.raises(ClientError, match="has been created before"):
                    async with client.transaction_producer("g", check=never_asked):
                        raise AssertionError
                await producer.producer.send(Message(TOPIC, b"x"))
                cluster.broker.peers[-1].oneway(request)
                await until(lambda n=count: len(verdicts(cluster.broker)) == n)
            cluster.broker.peers[-1].oneway(request)
    assert [each.commit_or_rollback for each in verdicts(cluster.broker)] == [8, 12]


class EndRecorder:
    """Notes verdicts, and may fail."""

    hook_name = "ends"

    def __init__(self, *, fails: bool = False) -> None:
        self.seen: list[EndTransactionContext] = []
        self._fails = fails

    def end_transaction(self, context: EndTransactionContext) -> None:
        self.seen.append(context)
        if self._fails:
            raise AssertionError("hook")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_hook_sees_each_verdict_and_cannot_stop_it(
    cluster: FakeCluster, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    take_verdicts(cluster.broker)
    hook = EndRecorder(fails=fails)

    async def check(message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK_MESSAGE

    async with (
        open_client(cluster.address) as client,
        client.transaction_producer("g", check=check, end_transaction_hooks=[hook]) as producer,
    ):
        message = Message(TOPIC, b"x", {"KEYS": "k"})
        async with producer.transaction(message) as transaction:
            await transaction.commit()
        half = MessageExt(TOPIC, b"half", {"PGROUP": "g", "UNIQ_KEY": "A" * 32})
        header = CheckTransactionStateRequestHeader(tran_state_table_offset=5, commit_log_offset=8332)
        request = make_request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(half))
        cluster.broker.peers[-1].oneway(request)
        await until(lambda: len(verdicts(cluster.broker)) == 2)
    sent, answered = hook.seen
    assert sent == EndTransactionContext(
        producer_group="g",
        message=message,
        broker_address=cluster.broker.address,
        msg_id=transaction.transaction_id,
        transaction_id=transaction.transaction_id,
        transaction_state=LocalTransactionState.COMMIT_MESSAGE,
        from_transaction_check=False,
    )
    assert (answered.msg_id, answered.from_transaction_check) == ("A" * 32, True)
    assert (answered.message.body, answered.broker_address) == (b"half", cluster.broker.address)
    assert answered.transaction_state is LocalTransactionState.ROLLBACK_MESSAGE
    assert caplog.text.count("endTransactionHook ends failed unexpectedly") == 2 * fails
