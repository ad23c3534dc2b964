"""State changes of transactions in the store: end, renew, give up, resume.

Every change is atomic on the event loop: there is no await between the records it puts and the table it changes, so
later callers see both. Callers decide whether and when a change is due: producers end transactions
(:mod:`rocketpy.broker.transaction.end`), check rounds renew them and give them up
(:mod:`rocketpy.broker.transaction.check`). A record that the store refuses changes nothing.

Compatibility: ``TransactionalMessageServiceImpl`` (4.9.8). A transaction ends only once here. A second end (a repeated
request, or a late one that names the first record after a copy was ended) is refused, where RocketMQ delivers again, or
delivers a message that was rolled back. A given-up transaction has ended.
"""

from __future__ import annotations

import enum
import logging
from collections import OrderedDict
from collections.abc import Callable

from rocketpy.broker.metadata.deleted_topics import DeletedTopics
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.send.put import MessagePut, PutMessageResult
from rocketpy.broker.transaction.half_message import HALF_QUEUE_ID, copied, named_origin, origin_of, restored
from rocketpy.broker.transaction.op_message import op_message
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.replay import LeftOpen
from rocketpy.clock import Clock
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import (
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
)
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from rocketpy.store.message_store import MessageStore

KEPT_ENDS_MAX = 10_000
"""Number of finished transactions whose outcome is kept for the remark to a late request."""

_log = logging.getLogger("rocketpy.broker.transaction")


class TransactionEnd(enum.Enum):
    """The outcome of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"


_FINAL = (TransactionEnd.COMMITTED, TransactionEnd.ROLLED_BACK)


class TransactionalMessageService:
    """The transactions of one broker."""

    def __init__(
        self,
        *,
        store: MessageStore,
        message_put: MessagePut,
        transactions: OpenTransactions,
        clock: Clock,
        store_host: bytes,
        queue_to_deliver: Callable[[str, int], int],
        is_deleted: Callable[[str, int], bool],
    ) -> None:
        """``queue_to_deliver`` returns the queue for a message, of its topic and the queue that it was sent to.

        ``is_deleted`` says whether a topic was deleted after the record at an offset was stored.
        """
        self._is_deleted = is_deleted
        self._queue_to_deliver = queue_to_deliver
        self._store = store
        self._message_put = message_put
        self._transactions = transactions
        self._clock = clock
        self._store_host = store_host
        self._ends: OrderedDict[int, TransactionEnd] = OrderedDict()

    def load(self, left: LeftOpen) -> None:
        """Add the transactions left open by earlier runs, and put the op messages that a crash has lost."""
        self._transactions.load(left.newest_by_origin, left.known_end)
        for origin in left.unwritten_ends:
            _log.warning("transaction %d had ended before the crash, its op message is put now", origin)
            self._put_op(origin)
            self._transactions.ended(origin)

    def catch_up(self) -> None:
        """Add the half messages stored since the last call, before they are looked up."""
        self._transactions.catch_up(self._store.max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID))

    def has_room(self) -> bool:
        """Whether one more transaction may begin."""
        return self._transactions.has_room(self._store.max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID))

    def newest(self, half: MessageExt) -> int | None:
        """Return the half queue offset of a transaction's latest record, None when it is not open.

        For a record past the table's end, the table catches up with the half queue, to the queue's real end and never
        further: an offset from a request must not determine the amount of work or create half messages.
        """
        if half.queue_offset >= self._transactions.known_end:
            self.catch_up()
        return self._transactions.newest(origin_of(half))

    def end_of(self, half: MessageExt) -> TransactionEnd | None:
        """Return how a transaction has ended, None when its outcome is not kept any more."""
        return self._ends.get(origin_of(half))

    def deleted_topic(self, half: MessageExt) -> str | None:
        """Return the topic of a half message that was deleted with its topic; ValueError when it has no valid target.

        A copy, which a check has made, may be later than the deletion: such a message is delivered if its topic exists.
        """
        topic = restored(half).topic
        return topic if self._is_deleted(topic, half.physical_offset) else None

    def commit(self, half: MessageExt) -> PutMessageResult:
        """Deliver an open transaction, named by any of its records, and end it.

        ValueError when the record has no valid target.
        """
        origin = origin_of(half)
        message = restored(half)
        message.queue_id = self._queue_to_deliver(message.topic, message.queue_id)
        if self._transactions.newest(origin) != half.queue_offset:
            message.properties[PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET] = str(origin)
        result = self._message_put.put(message)
        if result.is_ok:
            self._end(origin, TransactionEnd.COMMITTED)
        return result

    def roll_back(self, half: MessageExt) -> PutMessageResult:
        """End an open transaction without delivering its message."""
        origin = origin_of(half)
        result = self._put_op(origin)
        if result.is_ok:
            self._ended(origin, TransactionEnd.ROLLED_BACK)
        return result

    def renew(self, half: MessageExt, *, check_times: int | None) -> MessageExt | None:
        """Append a copy of an open transaction's latest record; return the copy, None when the store refused it.

        ``check_times`` is the new count of checks; None keeps the count.
        """
        self.catch_up()
        copy = copied(half)
        if check_times is not None:
            copy.properties[PROPERTY_TRANSACTION_CHECK_TIMES] = str(check_times)
        result = self._message_put.put(copy)
        if not result.is_ok:
            return None
        # The transient pool has half messages before the copy that the queue does not show before they are committed.
        self._transactions.catch_up(result.queue_offset)
        self._transactions.renewed(origin_of(half), result.queue_offset)
        half.properties = copy.properties
        half.queue_offset, half.physical_offset = result.queue_offset, result.physical_offset
        return half

    def give_up(self, half: MessageExt) -> bool:
        """Move an open transaction to TRANS_CHECK_MAX_TIME_TOPIC; False when the store refused it."""
        if not self._message_put.put(copied(half, topic=TRANS_CHECK_MAX_TIME_TOPIC)).is_ok:
            return False
        self._end(origin_of(half), TransactionEnd.GIVEN_UP)
        return True

    def resume(self, half: MessageExt) -> bool:
        """Restart the checks of a given-up or open transaction; False when it has ended or the store refused the copy.

        A record that RocketMQ gave up does not name its origin, so it becomes a new transaction.
        """
        self.catch_up()
        origin = origin_of(half) if half.topic == TRANS_HALF_TOPIC else named_origin(half)
        is_open = origin is None or self._transactions.newest(origin) is not None
        if not is_open and (half.topic == TRANS_HALF_TOPIC or self._ends.get(origin or 0) in _FINAL):
            return False
        copy = copied(half)
        copy.properties[PROPERTY_TRANSACTION_CHECK_TIMES] = "0"
        if origin is None:
            del copy.properties[PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET]
        result = self._message_put.put(copy)
        if result.is_ok:
            self._transactions.renewed(result.queue_offset if origin is None else origin, result.queue_offset)
        return result.is_ok

    def drop(self, origin: int) -> None:
        """Remove a transaction whose record is no longer in the store."""
        self._transactions.ended(origin)

    # ---- private --------------------------------------------------------------------------------------------------

    def _end(self, origin: int, end: TransactionEnd) -> None:
        """Put the op message of a transaction whose final record is stored; the transaction ends even if this fails."""
        if not self._put_op(origin, names_origin=end is TransactionEnd.GIVEN_UP).is_ok:
            _log.error("the op message of transaction %d, %s, was refused: it may be checked again after a restart",
                       origin, end.value)  # fmt: skip
        self._ended(origin, end)

    def _ended(self, origin: int, end: TransactionEnd) -> None:
        self._transactions.ended(origin)
        self._ends[origin] = end
        self._ends.move_to_end(origin)
        if len(self._ends) > KEPT_ENDS_MAX:
            self._ends.popitem(last=False)

    def _put_op(self, origin: int, *, names_origin: bool = False) -> PutMessageResult:
        """Put the op message that ends all existing records of a transaction.

        One that names the origin does not end copies that are put later: see RESUME_CHECK_HALF_MESSAGE.
        """
        newest = self._transactions.newest(origin)
        assert newest is not None, f"transaction {origin} is not open"
        names_origin = names_origin or newest != origin
        return self._message_put.put(
            op_message(
                newest,
                origin if names_origin else None,
                timestamp_ms=self._clock.timestamp_ms(),
                host=self._store_host,
            )
        )


def was_deleted(deleted: DeletedTopics, topics: TopicConfigManager, topic: str, physical_offset: int) -> bool:
    """Whether a half message, or the copy of one at this offset, was deleted with its topic."""
    return topic in deleted and (deleted.has_record(topic, physical_offset) or not topics.is_known(topic))
