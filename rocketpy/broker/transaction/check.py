"""TransactionalMessageCheckService: asks producers for the outcome of open transactions.

A round, every ``transactionCheckInterval``, visits the open transactions in order of each transaction's latest record::

    asked transactionCheckMax times, or older than log retention      given up: moved to TRANS_CHECK_MAX_TIME_TOPIC
    CHECK_IMMUNITY_TIME_IN_SECONDS not over yet                       skipped; a copy is appended once an hour
    younger than transactionTimeOut                                   the round ends
    else                                                              a copy is appended, and a producer of the group
                                                                      is asked about it (CHECK_TRANSACTION_STATE)

A transaction whose record cannot be read is over: it is logged and counted. A record that the store refuses for what it
contains is skipped until the next round; when the store accepts no writes at all, the round ends.

Records appended by a round are visited in the next one. After a round the offsets of CID_RMQ_SYS_TRANS advance: a start
replays the half and op queues from these offsets, so they are persisted only after the log is durable up to them. A
round yields every few milliseconds, and a cold record is read by a worker thread.

Compatibility: ``TransactionalMessageServiceImpl.check``, ``TransactionalMessageCheckService`` and
``AbstractTransactionalMessageCheckListener`` (4.9.8). Here rounds that skip an immune message do not
count as checks and do not each append a copy, and the last check may be answered until the next round. RocketMQ gives
up messages that were immune for long, allows no time for the last answer, retries a refused record for a minute, and
ends a round at a record of the future: it checks nothing until a clock that was set back catches up.
"""

from __future__ import annotations

import enum
import logging

import attrs
import trio

from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.transaction.check_request import check_request
from rocketpy.broker.transaction.half_message import HALF_QUEUE_ID, PROPERTY_ACCOUNT, origin_of
from rocketpy.broker.transaction.op_message import OP_QUEUE_ID, decode_ops
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.readable import readable_messages
from rocketpy.broker.transaction.replay import BATCH_COUNT, QueueEnds, queue_ends, read_open_transactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.clock import Clock
from rocketpy.containment import Contained
from rocketpy.protocol.codes import PERM_READ_WRITE
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import (
    PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_TRANSACTION_CHECK_TIMES,
)
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.ticks import next_tick

ROUND_SECONDS_MAX = 60.0
TICK_SECONDS = 1.0
"""Interval at which new half messages are added to the table between two rounds, so that each step is short."""

TURN_SECONDS = 0.005
"""Time that a round works before it yields to other tasks."""

IMMUNE_COPY_SECONDS = 3600.0
"""Maximum age of an immune transaction's latest record. The offset at which a start begins its replay cannot pass this
record: a longer time means more replay at start, a shorter one more copies."""

_MS_PER_HOUR = 3_600_000

_log = logging.getLogger("rocketpy.broker.transaction")


@attrs.frozen
class TransactionCheckStatistics:
    """Counters of the check rounds since the start."""

    round_count: int
    asked_count: int
    unasked_count: int  # due, but no producer of the group was online
    given_up_count: int
    open_count: int
    lost_count: int = 0  # transactions whose record cannot be read any more
    refused_count: int = 0  # copies and moves that the store refused, repeats included


class Verdict(enum.Enum):
    """Effect of one transaction's check on the round."""

    DONE = "the due action was taken"
    SKIP = "unchanged, the round continues"
    ROUND_ENDS = "unchanged, as are all later transactions"


@attrs.frozen
class _Waiting:
    """An immune transaction: its latest record, and the time until which it need not be read again."""

    queue_offset: int
    due_ms: int


class TransactionalMessageCheckService:
    """The check rounds of one broker. ``peer`` is the broker's own address, under which it commits offsets."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store_config: MessageStoreConfig,
        store: MessageStore,
        transactions: OpenTransactions,
        service: TransactionalMessageService,
        topic_config_manager: TopicConfigManager,
        consumer_offset_manager: ConsumerOffsetManager,
        producer_manager: ProducerManager,
        accounts: StrictAccounts,
        clock: Clock,
        peer: str,
    ) -> None:
        self._config = config
        self._store = store
        self._transactions = transactions
        self._service = service
        self._topics = topic_config_manager
        self._offsets = consumer_offset_manager
        self._producers = producer_manager
        self._accounts = accounts
        self._clock = clock
        self._store_config = store_config
        self._peer = peer
        self._op_offset = 0  # op messages before it are processed; 0 until loaded
        self._round_count = 0
        self._asked_count = 0
        self._unasked_count = 0
        self._given_up_count = 0
        self._lost_count = 0
        self._refused_count = 0
        self._immune: dict[int, _Waiting] = {}  # by origin: found by the last round

    def statistics(self) -> TransactionCheckStatistics:
        """Return the counters."""
        return TransactionCheckStatistics(
            self._round_count,
            self._asked_count,
            self._unasked_count,
            self._given_up_count,
            len(self._transactions),
            self._lost_count,
            self._refused_count,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the open transactions, then run rounds until cancelled.

        Reports started before loading; END_TRANSACTION waits for it.
        """
        ends = queue_ends(self._store)
        task_status.started()
        await self.load(ends)
        while True:
            began = trio.current_time()
            while trio.current_time() < began + self._interval_seconds:
                await trio.sleep_until(min(began + self._interval_seconds, next_tick(TICK_SECONDS)))
                self._service.catch_up()
            with Contained(_log, "a round of transaction checks"):
                await self.check()

    async def load(self, ends: QueueEnds) -> None:
        """Load the open transactions from the half and op queues; called once, by :meth:`run`."""
        self._op_offset = self._first_offset(TRANS_OP_HALF_TOPIC, OP_QUEUE_ID)
        half_offset = self._first_offset(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
        self._service.load(await read_open_transactions(self._store, half_offset, self._op_offset, ends))
        if len(self._transactions):
            _log.info("%d transactions are open", len(self._transactions))

    async def check(self) -> None:
        """Run one round, then advance the offsets."""
        self._topics.create_topic_in_send_message_back_method(TRANS_HALF_TOPIC, 1, PERM_READ_WRITE, 0)
        self._service.catch_up()
        skipped: dict[int, int] = {}  # origin and latest record, in order
        try:
            await self._look_at_all(skipped, self._clock.timestamp_ms())
        finally:
            self._transactions.restore(skipped)
        self._round_count += 1
        self._store.end_burst()
        await self._move_on()

    # ---- private --------------------------------------------------------------------------------------------------

    @property
    def _interval_seconds(self) -> float:
        return self._config.transaction_check_interval / 1000

    async def _look_at_all(self, skipped: dict[int, int], round_start_ms: int) -> None:
        """Check each transaction that is open now, and record which of them are skipped."""
        # What the transient pool has not committed cannot be read yet, and is not lost: it waits for the next round.
        readable_end = self._store.max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
        round_end, refused_before = min(self._transactions.known_end, readable_end), self._refused_count
        deadline = trio.current_time() + ROUND_SECONDS_MAX
        turn_end = trio.current_time() + TURN_SECONDS
        immune, self._immune = self._immune, {}
        while (first := self._transactions.first()) is not None and first[1] < round_end and first[0] not in skipped:
            now = trio.current_time()
            if now >= turn_end:
                if now >= deadline:
                    _log.warning("a round ends after %g s with %d transactions open",
                                 ROUND_SECONDS_MAX, len(self._transactions))  # fmt: skip
                    break
                self._store.end_burst()
                await trio.lowlevel.checkpoint()
                turn_end = trio.current_time() + TURN_SECONDS
                continue
            origin, queue_offset = first
            waiting = immune.get(origin)
            if waiting is not None and waiting.queue_offset == queue_offset and waiting.due_ms > round_start_ms:
                self._immune[origin] = waiting
                verdict = Verdict.SKIP
            else:
                half = await self._read(origin, queue_offset)
                if half is None:
                    continue
                verdict = Verdict.SKIP
                with Contained(_log, "the check of the half message at queue offset %d", queue_offset):
                    verdict = self._look_at(half, round_start_ms)
            if verdict is Verdict.ROUND_ENDS:
                break
            if verdict is Verdict.SKIP:
                skipped[origin] = queue_offset
                self._transactions.skip(origin)
        if self._refused_count > refused_before:
            _log.error("%d half messages wait for the next round: the store refused their copies",
                       self._refused_count - refused_before)  # fmt: skip

    async def _read(self, origin: int, queue_offset: int) -> MessageExt | None:
        """Return the latest record of a transaction; None when it is missing or the transaction has ended meanwhile."""
        result = self._store.get_message_nowait(TRANS_HALF_TOPIC, HALF_QUEUE_ID, queue_offset, 1)
        if result is None:
            result = await self._store.get_message(TRANS_HALF_TOPIC, HALF_QUEUE_ID, queue_offset, 1)
        if self._transactions.newest(origin) != queue_offset:
            return None
        found = readable_messages(result.body, TRANS_HALF_TOPIC)
        if found and origin_of(found[0]) == origin:
            return found[0]
        if found or not result.message_count:  # otherwise it is logged already
            why = "it is of another transaction" if found else result.damage or result.status.name
            _log.error("the half message at queue offset %d is lost, its transaction is over: %s", queue_offset, why)
        self._lost_count += 1
        self._service.drop(origin)
        return None

    def _look_at(self, half: MessageExt, round_start_ms: int) -> Verdict:
        """Take the action that is due for an open transaction."""
        now_ms = self._clock.timestamp_ms()
        age_ms = now_ms - half.born_timestamp
        reserved_ms = self._store_config.file_reserved_time * _MS_PER_HOUR
        times = _integer(half.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES))
        if (times is not None and times >= self._config.transaction_check_max) or age_ms > reserved_ms:
            return self._give_up(half)
        if half.store_timestamp == round_start_ms:  # a later one is of a clock that was set back, or of another master
            return Verdict.ROUND_ENDS
        immunity_ms = self._config.transaction_time_out
        immunity = half.properties.get(PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS)
        if immunity is None:
            if 0 <= age_ms < immunity_ms:
                return Verdict.ROUND_ENDS
        else:
            seconds = _integer(immunity)
            immunity_ms = immunity_ms if seconds in (None, -1) else (seconds or 0) * 1000
            if -reserved_ms <= age_ms < immunity_ms:  # a birth time far in the future must not give immunity for ever
                return self._leave(half, half.born_timestamp + immunity_ms)
        queue_offset = half.queue_offset
        copy = self._service.renew(half, check_times=1 if times is None else times + 1)
        if copy is None:
            return self._refused(queue_offset)
        self._ask(copy)
        return Verdict.DONE

    def _leave(self, half: MessageExt, immune_until_ms: int) -> Verdict:
        """Skip an immune transaction, and append a copy when its latest record is old."""
        copy_ms = half.store_timestamp + int(IMMUNE_COPY_SECONDS * 1000)
        if self._clock.timestamp_ms() >= copy_ms:
            queue_offset = half.queue_offset
            return Verdict.DONE if self._service.renew(half, check_times=None) else self._refused(queue_offset)
        self._immune[origin_of(half)] = _Waiting(half.queue_offset, min(immune_until_ms, copy_ms))
        return Verdict.SKIP

    def _refused(self, queue_offset: int) -> Verdict:
        """Skip this record if the store refuses it alone; end the round if the store refuses every write."""
        why = self._store.writable_or_why()
        if why is not None:
            _log.error("a round ends at the half message at queue offset %d: %s", queue_offset, why)
            return Verdict.ROUND_ENDS
        self._refused_count += 1
        return Verdict.SKIP

    def _give_up(self, half: MessageExt) -> Verdict:
        self._topics.create_topic_in_send_message_back_method(TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ_WRITE, 0)
        if not self._service.give_up(half):
            return self._refused(half.queue_offset)
        self._given_up_count += 1
        _log.error("message %s of %s was given up after %s checks and moved to %s", half.msg_id,
                   half.properties.get(PROPERTY_PRODUCER_GROUP), half.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES),
                   TRANS_CHECK_MAX_TIME_TOPIC)  # fmt: skip
        return Verdict.DONE

    def _ask(self, copy: MessageExt) -> None:
        """Ask an online producer of the group; without one, the copy waits for the next round."""
        group = copy.properties.get(PROPERTY_PRODUCER_GROUP, "")
        # Only producers of the account that sent the half message are asked.
        access_key = self._accounts.key_to_ask(copy.properties.get(PROPERTY_ACCOUNT))
        channel = self._producers.available_channel(group, access_key)
        if channel is None:
            self._unasked_count += 1
            _log.warning("no producer of %s is online to check message %s", group, copy.msg_id)
            return
        request = check_request(copy)
        if request is None:
            _log.error("the half message at %d has no valid REAL_TOPIC and REAL_QID", copy.physical_offset)
            return
        channel.oneway(request)
        self._asked_count += 1

    async def _move_on(self) -> None:
        """Advance both offsets: to the first open transaction, and to the first op message that is still needed."""
        first = self._transactions.first()
        half_offset = self._transactions.known_end if first is None else first[1]
        while True:
            result = self._store.get_message_nowait(TRANS_OP_HALF_TOPIC, OP_QUEUE_ID, self._op_offset, BATCH_COUNT)
            if result is None:
                result = await self._store.get_message(TRANS_OP_HALF_TOPIC, OP_QUEUE_ID, self._op_offset, BATCH_COUNT)
            ops = decode_ops(result.body) if result.message_count else ()
            ahead = next((op.queue_offset for op in ops if op.half_offset >= half_offset), None)
            if ahead is not None:
                self._op_offset = ahead
                break
            if not result.message_count and self._op_offset >= result.max_offset:
                break
            self._op_offset = max(result.next_begin_offset, self._op_offset + 1)  # also past an unreadable record
            await trio.lowlevel.checkpoint()
        self._offsets.commit_offset(self._peer, CHECK_GROUP, TRANS_HALF_TOPIC, HALF_QUEUE_ID, half_offset)
        self._offsets.commit_offset(self._peer, CHECK_GROUP, TRANS_OP_HALF_TOPIC, OP_QUEUE_ID, self._op_offset)

    def _first_offset(self, topic: str, queue_id: int) -> int:
        """Return the committed offset of a queue, or its min offset if none is committed."""
        offset = self._offsets.query_offset(CHECK_GROUP, topic, queue_id)
        return max(offset, self._store.min_offset_in_queue(topic, queue_id))


def _integer(text: str | None) -> int | None:
    """Return the number that Java would read; None for a missing text, -1 for an invalid one, as in RocketMQ."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else -1
