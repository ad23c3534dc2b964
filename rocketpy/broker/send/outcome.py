"""When the producer of a message hears of it, and what: the end of every road of a send.

Under SYNC_FLUSH an answer waits for the disk (GroupCommitService calls back) unless the producer does not want to wait
(WAIT=false, oneway); then the message is flushed soon all the same. Shared by sends, batches, retries and replies.

Compatibility: ``SendMessageProcessor.handlePutMessageResult`` (4.9.8); broker.md 5.
"""

from __future__ import annotations

from functools import partial

from rocketpy.broker.send.answers import Receipt, SendAnswers
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK
_TOO_MANY_WAIT = "[OVERLOAD]system busy, start flow control for a while: too many sends wait for the disk"


class SendOutcome:
    """Answers for stored and refused messages. One per broker."""

    def __init__(self, *, store: MessageStore, answers: SendAnswers) -> None:
        self._store = store
        self._sync_flush = store.sync_flush
        self._answers = answers
        self._unwaited_end = 0  # of the last message that nobody waits for; only under SYNC_FLUSH
        self._is_flush_asked = False  # for such messages

    def check_may_wait(self, connection: Connection, *, oneway: bool) -> None:
        """Raise RequestError(SYSTEM_BUSY) when an answer would have to wait and too many of this peer's do."""
        if self._sync_flush and not oneway and not connection.may_defer:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_WAIT)

    def not_stored(
        self, request: RemotingCommand, status: PutMessageStatus, body: bytes, properties: bytes
    ) -> RemotingCommand:
        """Return the answer to a send that the store has refused."""
        why = self._store.writable_or_why()
        code, remark = self._answers.refusal(status, why=why, body=body, properties=properties)
        return self._answers.refused(request, code, remark)

    def stored(self, connection: Connection, receipt: Receipt, *, oneway: bool, wait: str | None) -> None:
        """Answer for a message that is in the store, when the disk has it; ``wait`` is its property WAIT."""
        if self._sync_flush and wait != "false" and not oneway:
            connection.count_deferred()
            self._store.wait_durable(self._store.wrote_offset, partial(self._answer_stored, connection, receipt))
            return
        self.flush_soon()
        if not oneway:
            connection.reply_frame(self._answers.stored(receipt, _PUT_OK))

    def flush_soon(self) -> None:
        """See to it that a message for which nobody waits does not stay in memory under SYNC_FLUSH.

        One request at a time is enough: what came meanwhile is asked for when it is answered.
        """
        if not self._sync_flush:
            return
        self._unwaited_end = self._store.wrote_offset
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._store.wait_durable(self._unwaited_end, partial(self._flushed_unwaited, self._unwaited_end))

    def _answer_stored(self, connection: Connection, receipt: Receipt, status: PutMessageStatus) -> None:
        connection.reply_deferred(self._answers.stored(receipt, status))

    def _flushed_unwaited(self, physical_end: int, status: PutMessageStatus) -> None:
        self._is_flush_asked = False
        if self._unwaited_end > physical_end:
            self.flush_soon()
