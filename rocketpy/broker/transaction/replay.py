"""Replay of the half and op queues at start, which rebuilds the table of open transactions.

The store may have been written by RocketMQ. Everything before the two offsets of CID_RMQ_SYS_TRANS is processed; from
these offsets on, an op message ends a half message and its copies. A crash can cut the log or stop the broker between
two related records. None of these gaps delivers a message twice:

1. A commit and its op message are put one after the other. When the op is missing, the commit was the last record of
   the log and therefore the last of its queue when the store was opened. The same holds for a given-up transaction.
2. A check round appends a copy and advances past the copied record. When the new offset was not persisted, both records
   are read: the copy names its origin, and the latest copy counts.

Reads run in slices: hot records on the event loop, cold ones in a worker thread. Damaged records are skipped: a lost op
message leaves its transaction open, a lost half message is no longer open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from typing import TypeAlias

import attrs
import trio

from rocketpy.broker.transaction.half_message import HALF_QUEUE_ID, named_origin, origin_of, real_queue
from rocketpy.broker.transaction.op_message import OP_QUEUE_ID, Op, decode_ops
from rocketpy.broker.transaction.readable import readable_messages
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, transaction_type
from rocketpy.protocol.topic_name import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageResult
from rocketpy.store.services.waiting import until_done

QueueEnds: TypeAlias = dict[tuple[str, int], int]
"""The max offset of each queue, by topic and queue id."""

BATCH_COUNT = 32
"""Records read and processed per slice, before other tasks run."""


@attrs.frozen
class LeftOpen:
    """Transactions left open by earlier runs: origin to latest record, in ascending order of the latter."""

    newest_by_origin: dict[int, int]
    known_end: int  # the half queue offset up to which the queue was read
    unwritten_ends: tuple[int, ...]
    """Origins whose transaction has ended but whose op message is missing. They are among the open ones too."""


def queue_ends(store: MessageStore) -> QueueEnds:
    """Return the max offset of every queue. Call it after opening the store and before the first put."""
    return {queue: store.max_offset_in_queue(*queue) for queue in store.queues()}


async def read_open_transactions(store: MessageStore, half_offset: int, op_offset: int, ends: QueueEnds) -> LeftOpen:
    """Replay both queues from the given offsets on; ``ends`` has the max offsets from before the first put."""
    known_end = store.max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
    ended: set[int] = set()
    ended_up_to: dict[int, int] = {}
    async for records in read_queue(store, TRANS_OP_HALF_TOPIC, OP_QUEUE_ID, op_offset):
        for op in decode_ops(records):
            _note_end(op, ended, ended_up_to)
    newest: dict[int, _Newest] = {}
    async for records in read_queue(store, TRANS_HALF_TOPIC, HALF_QUEUE_ID, half_offset, known_end):
        for half in readable_messages(records, TRANS_HALF_TOPIC):
            origin, offset = origin_of(half), half.queue_offset
            if offset >= known_end or offset in ended or origin in ended or offset <= ended_up_to.get(origin, -1):
                continue
            earlier = newest.pop(origin).physical_offsets if origin in newest else []
            unique_key = half.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX)
            newest[origin] = _Newest(offset, [*earlier, half.physical_offset], _target(half), unique_key)
    unwritten = await _unwritten_ends(store, newest, ends) if newest else ()
    return LeftOpen({origin: each.queue_offset for origin, each in newest.items()}, known_end, unwritten)


async def read_queue(
    store: MessageStore, topic: str, queue_id: int, begin: int, end: int | None = None
) -> AsyncIterator[bytes]:
    """Yield the records of a queue in slices, from ``begin`` or the min offset, whichever is larger.

    Damaged records are skipped.
    """
    offset = max(begin, store.min_offset_in_queue(topic, queue_id))
    last = store.max_offset_in_queue(topic, queue_id) if end is None else end
    while offset < last:
        result = await until_done(partial(_read, store, topic, queue_id, offset))
        if result.message_count:
            yield result.body
        offset = max(result.next_begin_offset, offset + 1)
        await trio.lowlevel.checkpoint()


# ---- private --------------------------------------------------------------------------------------------------------


async def _read(store: MessageStore, topic: str, queue_id: int, offset: int) -> GetMessageResult:
    result = store.get_message_nowait(topic, queue_id, offset, BATCH_COUNT)
    return await store.get_message(topic, queue_id, offset, BATCH_COUNT) if result is None else result


@attrs.frozen
class _Newest:
    """The latest record of a transaction."""

    queue_offset: int
    physical_offsets: list[int]  # of all its records read so far, this one last
    target: str | None
    """Its topic. Its message may be in any queue of it, because the topic may have had fewer queues at the commit."""
    unique_key: str | None

    def may_have_ended_by(self, last: MessageExt) -> bool:
        """Whether ``last``, the last record of a queue of the target, is the delivered message of this transaction.

        Retries stored by other brokers may have the commit flag too: those name offset 0.
        """
        return (
            last.physical_offset > self.physical_offsets[-1]
            and last.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX) == self.unique_key
        )


def _note_end(op: Op, ended: set[int], ended_up_to: dict[int, int]) -> None:
    if op.half_offset < 0:
        return
    if op.origin is None:
        ended.add(op.half_offset)
    else:
        ended_up_to[op.origin] = max(op.half_offset, ended_up_to.get(op.origin, -1))


def _target(half: MessageExt) -> str | None:
    try:
        return real_queue(half)[0]
    except ValueError:
        return None


async def _unwritten_ends(store: MessageStore, newest: dict[int, _Newest], ends: QueueEnds) -> tuple[int, ...]:
    """Return the origins whose commit or give-up is the last message of its queue: case 1 of the module docstring."""
    topics = {SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, *(each.target for each in newest.values())}
    queues = [queue for queue in ends if queue[0] in topics]
    by_origin: defaultdict[int, list[MessageExt]] = defaultdict(list)
    by_record: defaultdict[int, list[MessageExt]] = defaultdict(list)
    for topic, queue_id in queues:
        end = ends[topic, queue_id]
        async for records in read_queue(store, topic, queue_id, end - 1, end):
            found = readable_messages(records)
            if not found:
                continue
            last = found[0]
            is_commit = transaction_type(last.sys_flag) == TRANSACTION_COMMIT_TYPE
            origin = named_origin(last)
            if origin is not None and (is_commit or topic == TRANS_CHECK_MAX_TIME_TOPIC):
                by_origin[origin].append(last)
            if is_commit:
                by_record[last.prepared_transaction_offset].append(last)
    return tuple(
        origin
        for origin, each in newest.items()
        if any(
            each.may_have_ended_by(last)
            for found in (by_origin[origin], *(by_record[at] for at in each.physical_offsets))
            for last in found
        )
    )
