"""END_TRANSACTION, by which a producer commits or rolls back, and RESUME_CHECK_HALF_MESSAGE, by which an operator has a
given-up transaction checked again.

A half message is nearly always in memory, so a request is usually served in its burst. A task serves a request whose
record is cold, or that arrives before the open transactions are loaded.

Compatibility: ``EndTransactionProcessor`` and ``AdminBrokerProcessor.resumeCheckHalfMessage`` (4.9.8).
"Unknown" is answered with SUCCESS unless the request is oneway: RocketMQ sends no response, and its caller times out.
Only records that a unit of the half queue points to can be ended; RocketMQ delivers whatever record is at the offset,
even one that a producer has forged inside a message body. Under SYNC_FLUSH or SYNC_MASTER the answer waits until the
end is stored as promised, and is SUCCESS for each of the statuses; RocketMQ does not wait. Only an open or given-up
transaction is resumed, with its body as it was stored; RocketMQ appends any record to the half topic, and compressed
ones become unreadable.
"""

from __future__ import annotations

import logging
from functools import partial

import attrs

from rocketpy.broker.acl.needs import ANY_ACCOUNT, STRICT_ADMIN
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.send.put import PutMessageResult
from rocketpy.broker.transaction.half_message import HALF_QUEUE_ID, PROPERTY_ACCOUNT
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService, TransactionEnd
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.log_files import is_logged
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.properties import PROPERTY_PRODUCER_GROUP
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

_log = logging.getLogger("rocketpy.broker.transaction")

_NOT_FOUND = "Find prepared transaction message failed"
_TOO_MANY_WAIT = (
    "[OVERLOAD]system busy, start flow control for a while: too many ends of transactions wait for the disk or a slave"
)
_RESUME_FAILED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
_NO_REMARK = "not set any response code"
"""The remark that Java's answers have until another one is set, for END_TRANSACTION on a slave."""

_SHOWN_MAX = 160


@attrs.define(eq=False, kw_only=True)
class EndTransactionProcessor:
    """Serves the requests about transactions."""

    _config: BrokerConfig
    _store: MessageStore
    _transactions: OpenTransactions
    _service: TransactionalMessageService
    _message_size_max: int
    _is_slave: bool
    _accounts: StrictAccounts
    _late_count: int = attrs.field(default=0, init=False)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register(RequestCode.END_TRANSACTION, self.process_end, needs=ANY_ACCOUNT)
        dispatcher.register_task(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.process_resume, needs=STRICT_ADMIN)

    # ---- END_TRANSACTION ------------------------------------------------------------------------------------------

    def process_end(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Commit or roll back; RequestError has RocketMQ's remark and the reason."""
        header = read_header(request, EndTransactionRequestHeader)
        if self._is_slave:
            raise RequestError(ResponseCode.SLAVE_NOT_AVAILABLE, _NO_REMARK)
        if header.commit_or_rollback == TRANSACTION_NOT_TYPE:
            _log.info("%s: transaction %d of %s is still pending",
                      connection.peer, header.tran_state_table_offset, _shown(header.producer_group))  # fmt: skip
            return make_response(request)
        if not connection.may_defer or (not request.is_oneway and self._are_too_many_waiting()):
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_WAIT)
        self._store.write_up_to(header.commit_log_offset)
        record = (
            self._store.look_message_by_offset_nowait(header.commit_log_offset)
            if self._transactions.is_loaded
            else None
        )
        if record is None:
            if not connection.answer_later(request, self._end_cold, connection, request, header):
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_WAIT)
            return DEFERRED
        self._end(connection, request, header, record)
        return self._ended(connection, request)

    def _are_too_many_waiting(self) -> bool:
        # No gate bounds them as it bounds sends: the end of one transaction may be sent any number of times.
        store = self._store
        return store.waits_for_storing and store.waiting_for_storing_count > self._config.sends_waiting_for_disk_max

    async def _end_cold(
        self, connection: Connection, request: RemotingCommand, header: EndTransactionRequestHeader
    ) -> RemotingCommand | Deferred:
        """Serve a request whose record is not in memory."""
        if self._is_slave:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _RESUME_FAILED)
        await self._transactions.wait_loaded()
        record = await self._store.look_message_by_offset(header.commit_log_offset)
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{_NOT_FOUND}: no record at commitLogOffset {header.commit_log_offset}"
            )
        self._end(connection, request, header, record)
        return self._ended(connection, request)

    def _ended(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred:
        """Return the response after the op message was put, or DEFERRED while it waits to be stored as promised."""
        response = make_response(request)
        if self._store.waits_for_storing and not request.is_oneway:
            self._store.wait_stored(self._store.wrote_offset, partial(self._answer_stored, connection, response))
            return DEFERRED
        self._store.flush_soon()
        return response

    def _end(
        self, connection: Connection, request: RemotingCommand, header: EndTransactionRequestHeader, record: bytes
    ) -> None:
        """End the transaction that a half record belongs to, or raise RequestError."""
        half = _checked_half(header, record)
        self._accounts.check_owner(connection, request, half.properties.get(PROPERTY_ACCOUNT), "the half message")
        is_commit = header.commit_or_rollback == TRANSACTION_COMMIT_TYPE
        if self._service.newest(half) is None:
            wanted = TransactionEnd.COMMITTED if is_commit else TransactionEnd.ROLLED_BACK
            end = self._service.end_of(half)
            if end is wanted:
                return
            why = _over(half, end)
            self._log_late(connection, header, why)
            raise RequestError(ResponseCode.SYSTEM_ERROR, why)
        try:
            deleted = self._service.deleted_topic(half) if is_commit else None
            is_commit = is_commit and deleted is None
            result = self._service.commit(half) if is_commit else self._service.roll_back(half)
        except ValueError as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_NOT_FOUND}: {failure}") from failure
        if not result.is_ok:
            raise self._refusal(result)
        if deleted is not None:
            self._store.flush_soon()
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_NOT_FOUND}: topic[{_shown(deleted)}] was deleted")
        if header.from_transaction_check:
            _log.info("transaction %d of %s ended after a check: %s", header.tran_state_table_offset,
                      _shown(header.producer_group), "committed" if is_commit else "rolled back")  # fmt: skip

    def _log_late(self, connection: Connection, header: EndTransactionRequestHeader, why: str) -> None:
        """Log now and then: a producer that wants no answer believes that its end counts."""
        self._late_count += 1
        if is_logged(self._late_count):
            _log.warning("the end %d of a transaction of %s from %s is refused, %d so far: %s",
                         header.commit_or_rollback, _shown(header.producer_group), connection.peer, self._late_count,
                         why)  # fmt: skip

    def _answer_stored(self, connection: Connection, response: RemotingCommand, status: PutMessageStatus) -> None:
        """Answer after the wait; a timeout of disk or slave is SUCCESS, as in RocketMQ."""
        connection.reply_deferred(encode_frame(response))

    def _refusal(self, result: PutMessageResult) -> RequestError:
        """Return RocketMQ's response for a record that the store refused."""
        status = result.status
        if status is PutMessageStatus.CREATE_MAPEDFILE_FAILED:
            return RequestError(ResponseCode.SYSTEM_ERROR, "Create mapped file failed.")
        if status in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED):
            return RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                "The message is illegal, maybe msg body or properties length not matched. msg body length limit "
                f"{self._message_size_max}B, msg properties length limit 32KB.",
            )
        if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
            why = self._store.writable_or_why()
            remark = "Service not available now." + (f" {why}" if why else "")
            return RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if status is PutMessageStatus.OS_PAGECACHE_BUSY:
            return RequestError(ResponseCode.SYSTEM_ERROR, "OS page cache busy, please try another machine")
        if status is PutMessageStatus.UNKNOWN_ERROR:
            return RequestError(ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR")
        return RequestError(ResponseCode.SYSTEM_ERROR, f"UNKNOWN_ERROR DEFAULT: {status.name}")

    # ---- RESUME_CHECK_HALF_MESSAGE --------------------------------------------------------------------------------

    async def process_resume(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Restart the checks of a transaction named by a record, usually one in TRANS_CHECK_MAX_TIME_TOPIC."""
        header = read_header(request, ResumeCheckHalfMessageRequestHeader)
        try:
            _, physical_offset = decode_offset_msg_id(header.msg_id or "")
        except RemoteProtocolError as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_RESUME_FAILED} msgId is none: {failure}") from failure
        if self._is_slave:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _RESUME_FAILED)
        await self._transactions.wait_loaded()
        record = await self._store.look_message_by_offset(physical_offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_RESUME_FAILED} No record at offset {physical_offset}")
        half = _decoded(record, f"{_RESUME_FAILED} The record at offset {physical_offset} is damaged")
        if half.topic not in (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{_RESUME_FAILED} The record at offset {physical_offset} is no half message, its topic is "
                f"{half.topic!r}",
            )
        if not self._service.resume(half):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_RESUME_FAILED} The transaction is over or not stored")
        self._store.flush_soon()
        _log.info("transaction of message %s is checked again, asked for by %s", half.msg_id, connection.peer)
        return make_response(request)


def _checked_half(header: EndTransactionRequestHeader, record: bytes) -> MessageExt:
    """Return the half message in ``record`` if it matches the request.

    The store has checked that a unit of the record's own queue points to it. A record of the half topic is therefore in
    the half queue, at the queue offset that it names, below the end of that queue.
    """
    half = _decoded(record, f"{_NOT_FOUND}: the record at commitLogOffset {header.commit_log_offset} is damaged")
    if half.topic != TRANS_HALF_TOPIC or half.queue_id != HALF_QUEUE_ID:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{_NOT_FOUND}: the record at commitLogOffset {header.commit_log_offset} is no half message",
        )
    if half.properties.get(PROPERTY_PRODUCER_GROUP) != header.producer_group:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            "The producer group wrong: the half message is not of producerGroup " + _shown(header.producer_group),
        )
    if half.queue_offset != header.tran_state_table_offset:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The transaction state table offset wrong: tranStateTableOffset is {header.tran_state_table_offset}, the "
            f"half message has {half.queue_offset}",
        )
    return half


def _decoded(record: bytes, remark: str) -> MessageExt:
    """Decode a record; RequestError has the remark and the decoding error."""
    try:
        return decode_message(record, decompress=False)
    except RemoteProtocolError as failure:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{remark}: {failure}") from failure


def _over(half: MessageExt, end: TransactionEnd | None) -> str:
    how = "has ended" if end is None else f"was {end.value}"
    return f"{_NOT_FOUND}: the transaction of message {half.msg_id} is not open, it {how}"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
