"""Decides when a producer is answered, and with what. The last step of every send.

Under SYNC_FLUSH or SYNC_MASTER the response waits until the message is stored as promised (``wait_stored`` of the store
calls back), unless the producer does not wait (WAIT=false, oneway); such a message is still flushed soon. Shared by
sends and batches.

Compatibility: ``SendMessageProcessor.handlePutMessageResult`` (4.9.8).
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
_TOO_MANY_WAIT = "[OVERLOAD]system busy, start flow control for a while: too many sends wait for the disk or a slave"


class SendOutcome:
    """Responses to stored and refused messages. One per broker."""

    def __init__(self, *, store: MessageStore, answers: SendAnswers) -> None:
        self._store = store
        self._waits_for_storing = store.waits_for_storing
        self._answers = answers

    def check_may_wait(self, connection: Connection, *, oneway: bool) -> None:
        """Raise RequestError(SYSTEM_BUSY) when the response would be deferred and this peer has too many of those."""
        if self._waits_for_storing and not oneway and not connection.may_defer:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_WAIT)

    def not_stored(
        self, request: RemotingCommand, status: PutMessageStatus, body: bytes, properties: bytes
    ) -> RemotingCommand:
        """Return the response to a send that the store has refused."""
        why = self._store.writable_or_why()
        code, remark = self._answers.refusal(status, why=why, body=body, properties=properties)
        return self._answers.refused(request, code, remark)

    def stored(self, connection: Connection, receipt: Receipt, *, oneway: bool, wait: str | None) -> None:
        """Answer for a message that was put, once it is stored as promised; ``wait`` is its property WAIT."""
        if self._waits_for_storing and wait != "false" and not oneway:
            connection.count_deferred()
            self._store.wait_stored(self._store.wrote_offset, partial(self._answer_stored, connection, receipt))
            return
        self._store.flush_soon()
        if not oneway:
            connection.reply_frame(self._answers.stored(receipt, _PUT_OK))

    def _answer_stored(self, connection: Connection, receipt: Receipt, status: PutMessageStatus) -> None:
        connection.reply_deferred(self._answers.stored(receipt, status))
