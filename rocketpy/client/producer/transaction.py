"""Transactions: a half message that consumers see only once it is committed.

::

    async with client.transaction_producer("g", check=outcome_of) as producer:
        async with producer.transaction(Message("T", b"order 7")) as transaction:
            await database.store_order(7, transaction.transaction_id)
            await transaction.commit()

A transaction that is left without a verdict, or by an exception, is UNKNOW: the broker asks a producer of the group
about it until one knows (``check``), so local work has to note the transaction id where ``check`` finds it. The verdict
travels without an answer; if it is lost, the broker asks too.

Compatibility: ``TransactionMQProducer``, ``DefaultMQProducerImpl.sendMessageInTransaction`` and
``checkTransactionState`` (4.9.8). Checks run concurrently where Java has one thread for them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.client.hooks import EndTransactionContext, EndTransactionHook
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.producer import Producer
from rocketpy.client.program_call import ProgramCall, log_program_failure
from rocketpy.client.results import LocalTransactionState, SendResult, SendStatus
from rocketpy.client.validators import UNSPECIFIED, check_async
from rocketpy.errors import BrokerError, ClientError, LocalProtocolError, RemoteProtocolError, RemotingError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.namespace import without_namespace, wrap_namespace
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_TRANSACTION_PREPARED,
)
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import TRANSACTION_PREPARED_TYPE
from rocketpy.remoting.connection import Connection

_log = logging.getLogger("rocketpy.client")


Check = Callable[[MessageExt], Awaitable[LocalTransactionState]]
"""Says what became of a transaction; the message is the half message, its ``msg_id`` the transaction id."""


@attrs.frozen
class TransactionSendResult:
    """Outcome of a transaction; ``send_result`` is that of the half message."""

    send_result: SendResult
    local_transaction_state: LocalTransactionState


class EndTransactionHooks:
    """The end-transaction hooks of one producer, in the order in which they were given."""

    def __init__(self, group: str, hooks: Sequence[EndTransactionHook]) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    def announce(
        self,
        message: Message | MessageExt,
        transaction_id: str,
        address: str,
        state: LocalTransactionState,
        *,
        from_transaction_check: bool,
    ) -> None:
        """Show a verdict that is about to be sent; ``transaction_id`` is the client's, the unique key."""
        if not self._hooks:
            return
        context = EndTransactionContext(
            producer_group=self._group,
            message=message,
            broker_address=address,
            msg_id=transaction_id,
            transaction_id=transaction_id,
            transaction_state=state,
            from_transaction_check=from_transaction_check,
        )
        for hook in self._hooks:
            with ProgramCall(_log, "endTransactionHook %s", hook.hook_name):
                hook.end_transaction(context)


class Transaction:
    """One open transaction: commit it or roll it back, once."""

    def __init__(self, message: Message, send_result: SendResult, end: _End) -> None:
        self.message = message
        self.send_result = send_result
        self._end = end
        self.state: LocalTransactionState | None = None
        """The verdict, once there is one."""

    @property
    def transaction_id(self) -> str:
        """The id by which ``check`` will be asked for the transaction: the ``msg_id`` of the message."""
        return self.send_result.msg_id

    async def commit(self) -> None:
        """Let consumers see the message. Waits for the connection, not for an answer."""
        await self.end(LocalTransactionState.COMMIT_MESSAGE)

    async def rollback(self) -> None:
        """Discard the message. Waits for the connection, not for an answer."""
        await self.end(LocalTransactionState.ROLLBACK_MESSAGE)

    async def end(self, state: LocalTransactionState, remark: str | None = None) -> None:
        """Send a verdict; ClientError when there is one already."""
        if self.state is not None:
            raise ClientError(UNSPECIFIED, f"transaction {self.transaction_id} has ended with {self.state.name}")
        self.state = state
        await self._end(self, state, remark)


_End = Callable[[Transaction, LocalTransactionState, str | None], Awaitable[None]]


class TransactionProducer:
    """Sender of half messages. Created by :meth:`Client.transaction_producer`; may be used by many tasks concurrently.

    ``producer`` sends ordinary messages of the same group.
    """

    def __init__(self, *, instance: ClientInstance, group: str, producer: Producer, hooks: EndTransactionHooks) -> None:
        self.producer = producer
        self._instance = instance
        self._group = group
        self._hooks = hooks

    async def wait_ready(self, timeout_s: float, *topics: str) -> None:
        """Wait as :meth:`Producer.wait_ready` does."""
        await self.producer.wait_ready(timeout_s, *topics)

    @asynccontextmanager
    async def transaction(self, message: Message) -> AsyncIterator[Transaction]:
        """Send a half message; the block is the local transaction.

        Raises what :meth:`Producer.send` raises. A half message that is stored, but not with SEND_OK, is rolled back
        and a ClientError, as Java does not run the local transaction either.
        """
        transaction = await self._begin(message)
        if transaction.send_result.status is not SendStatus.SEND_OK:
            await transaction.rollback()
            raise ClientError(
                UNSPECIFIED,
                f"the half message is rolled back: it was stored with {transaction.send_result.status.name}",
            )
        try:
            yield transaction
        except BaseException as failure:
            if transaction.state is None:
                if isinstance(failure, Exception):
                    remark = f"executeLocalTransactionBranch exception: {failure!r}"
                    await transaction.end(LocalTransactionState.UNKNOW, remark)
                else:  # a cancelled block sends nothing
                    self._warn_unknown(transaction, "it was cancelled")
            raise
        if transaction.state is None:
            await transaction.end(LocalTransactionState.UNKNOW)

    async def send_in_transaction(
        self, message: Message, execute: Callable[[Transaction], Awaitable[LocalTransactionState]]
    ) -> TransactionSendResult:
        """Send a half message, run a local transaction, and end the message as that says.

        As in Java an exception of ``execute`` is logged, and UNKNOW; a half message that was not stored with SEND_OK is
        rolled back, and ``execute`` does not run.
        """
        transaction = await self._begin(message)
        remark = None
        if transaction.send_result.status is not SendStatus.SEND_OK:
            state = LocalTransactionState.ROLLBACK_MESSAGE
        else:
            state, remark = await self._run(execute, transaction)
        if transaction.state is None:
            await transaction.end(state, remark)
        return TransactionSendResult(transaction.send_result, transaction.state or state)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _begin(self, message: Message) -> Transaction:
        properties = dict(message.properties)
        properties.pop(PROPERTY_DELAY_TIME_LEVEL, None)
        half = Message(message.topic, message.body, properties, message.flag)
        own = {PROPERTY_TRANSACTION_PREPARED: "true", PROPERTY_PRODUCER_GROUP: self._group}
        result = await self.producer.send_with(half, properties=own, sys_flag=TRANSACTION_PREPARED_TYPE)
        return Transaction(message, result, self.send_verdict)

    async def _run(
        self, execute: Callable[[Transaction], Awaitable[LocalTransactionState]], transaction: Transaction
    ) -> tuple[LocalTransactionState, str | None]:
        try:
            state = await execute(transaction)
        except Exception as failure:
            text = "the local transaction of message %s failed; its state is UNKNOW"
            log_program_failure(failure, _log, text, transaction.transaction_id)
            return LocalTransactionState.UNKNOW, f"executeLocalTransactionBranch exception: {failure!r}"
        return _known(state), None

    def _warn_unknown(self, transaction: Transaction, reason: str) -> None:
        _log.warning(
            "transaction %s to topic %s has ended unknown, its broker will ask a producer of group %s about it: %s",
            transaction.transaction_id,
            transaction.message.topic,
            self._group,
            reason,
        )

    async def send_verdict(self, transaction: Transaction, state: LocalTransactionState, remark: str | None) -> None:
        """Send a verdict to the master of the queue; a failure is only logged, for the broker will ask."""
        result = transaction.send_result
        if state is LocalTransactionState.UNKNOW:
            self._warn_unknown(transaction, remark or "no verdict")
        try:
            _, commit_log_offset = decode_offset_msg_id(result.offset_msg_id)
            header = EndTransactionRequestHeader(
                producer_group=self._group,
                tran_state_table_offset=result.queue_offset,
                commit_log_offset=commit_log_offset,
                commit_or_rollback=state.value,
                from_transaction_check=False,
                msg_id=result.msg_id,
                transaction_id=result.transaction_id,
                broker_name=result.message_queue.broker_name,
            )
            address = await self._instance.routes.publish_address(
                MessageQueue(
                    wrap_namespace(self._instance.namespace, result.message_queue.topic),
                    result.message_queue.broker_name,
                    result.message_queue.queue_id,
                )
            )
            self._hooks.announce(
                transaction.message, transaction.transaction_id, address, state, from_transaction_check=False
            )
            await self._instance.remoting.oneway(address, _end_request(header, remark))
        except trio.Cancelled:
            _log.warning("the verdict %s on message %s was not sent: it was cancelled", state.name, result.msg_id)
            raise
        except (ClientError, BrokerError, RemotingError, RemoteProtocolError, LocalProtocolError) as failure:
            _log.warning("the verdict %s on message %s was not sent: %s", state.name, result.msg_id, failure)


class _Checks:
    """Answers brokers that ask about transactions of a group."""

    def __init__(self, *, instance: ClientInstance, group: str, check: Check, hooks: EndTransactionHooks) -> None:
        self._instance = instance
        self._group = group
        self._check = check
        self._hooks = hooks

    async def check_transaction_state(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer by a request of our own, as brokers expect."""
        header = read_header(request, CheckTransactionStateRequestHeader)
        message = await self._instance.answers.unpacked(request.body, decode_message)
        if self._instance.namespace:
            message.topic = without_namespace(message.topic, self._instance.namespace)
        state, remark = await self._checked(message)
        # A verdict that was lost, or never given, is seen in the log: each check is a line of it.
        level = logging.WARNING if state is LocalTransactionState.UNKNOW else logging.INFO
        _log.log(
            level,
            "broker %s (%s) has asked group %s about transaction %s to topic %s: %s",
            header.broker_name,
            connection.peer,
            self._group,
            message.msg_id,
            message.topic,
            state.name,
        )
        verdict = EndTransactionRequestHeader(
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message.msg_id,
            transaction_id=header.transaction_id,
            broker_name=header.broker_name,
        )
        answer = _end_request(verdict, remark)
        self._instance.remoting.sign(answer, connection)
        self._hooks.announce(message, message.msg_id, connection.peer, state, from_transaction_check=True)
        connection.oneway(answer)
        return None

    async def _checked(self, message: MessageExt) -> tuple[LocalTransactionState, str | None]:
        try:
            state = await self._check(message)
        except Exception as failure:
            text = "checking the transaction of message %s failed; its state is UNKNOW"
            log_program_failure(failure, _log, text, message.msg_id)
            return LocalTransactionState.UNKNOW, f"checkLocalTransactionState Exception: {failure!r}"
        return _known(state), None


def _known(state: object) -> LocalTransactionState:
    """Return a program's verdict; None is UNKNOW, as in Java, and so is what a program without type checks returns."""
    if isinstance(state, LocalTransactionState):
        return state
    if state is not None:
        _log.error("%.100r is no verdict on a transaction, expected LocalTransactionState; it is UNKNOW", state)
    return LocalTransactionState.UNKNOW


def _end_request(header: EndTransactionRequestHeader, remark: str | None) -> RemotingCommand:
    request = make_request(RequestCode.END_TRANSACTION, header, oneway=True)
    request.remark = remark
    return request


@asynccontextmanager
async def transaction_producer_role(
    instance: ClientInstance, group: str, producer: Producer, check: Check, hooks: Sequence[EndTransactionHook] = ()
) -> AsyncIterator[TransactionProducer]:
    """Answer the checks of a producer's group while the block runs."""
    group = wrap_namespace(instance.namespace, group)
    check_async(check)
    end_hooks = EndTransactionHooks(group, hooks)
    checks = _Checks(instance=instance, group=group, check=check, hooks=end_hooks)
    handlers = {RequestCode.CHECK_TRANSACTION_STATE: checks.check_transaction_state}
    with instance.broker_requests.handling(group, handlers):
        yield TransactionProducer(instance=instance, group=group, producer=producer, hooks=end_hooks)
