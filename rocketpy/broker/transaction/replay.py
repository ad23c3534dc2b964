"""Reads back from the half and op queues which transactions are open: after a start, whoever wrote the store.

Everything in front of the two offsets of CID_RMQ_SYS_TRANS is done with; behind them an op message ends a half message
and the copies of it. Three records can be missing when a crash has cut the log or stopped the broker between two of
them, and none of the gaps delivers a message twice:

1. A commit and its op message are put one after the other. When the op is missing the commit was the last record of the
   log, so it was the last of its queue when the store was opened; the same goes for one that was given up.
2. A check round appends a copy and passes over the record that it copies. When the offset that says so was not written,
   the copy names its origin, and the newest copy counts.

Reads run in slices, on the event loop what is in memory and by a worker thread what is not. Damaged records are
skipped: an op message that is lost leaves its transaction open, a half message that is lost is not open any more.
"""

from __future__ import annotations

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
"""Topic and queue id, and the queue offset behind the last message."""

BATCH_COUNT = 32
"""Records that are read and looked at before others have their turn."""


@attrs.frozen
class LeftOpen:
    """What earlier runs have left: origins and newest records in ascending order of the latter."""

    newest_by_origin: dict[int, int]
    known_end: int  # the half queue offset where this was read up to
    unwritten_ends: tuple[int, ...]
    """Origins that were ended and whose op message is missing. They are still among the open ones."""


def queue_ends(store: MessageStore) -> QueueEnds:
    """Return where every queue ends: to be asked before anything is put into the opened store."""
    return {queue: store.max_offset_in_queue(*queue) for queue in store.queues()}


async def read_open_transactions(store: MessageStore, half_offset: int, op_offset: int, ends: QueueEnds) -> LeftOpen:
    """Read both queues from the offsets on that are all done with; ``ends`` is where queues ended at the start."""
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
            places = newest.pop(origin).physical_offsets if origin in newest else []
            unique_key = half.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX)
            newest[origin] = _Newest(offset, [*places, half.physical_offset], _target(half), unique_key)
    unwritten = await _unwritten_ends(store, newest, ends) if newest else ()
    return LeftOpen({origin: each.queue_offset for origin, each in newest.items()}, known_end, unwritten)


async def read_queue(
    store: MessageStore, topic: str, queue_id: int, begin: int, end: int | None = None
) -> AsyncIterator[bytes]:
    """Yield the records of a queue in slices, from where it begins if that is behind ``begin``; a damaged one is
    passed over.
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
    """The newest record of a transaction."""

    queue_offset: int
    physical_offsets: list[int]  # of all its records that were seen, this one last
    target: tuple[str, int] | None
    unique_key: str | None

    def may_have_ended_by(self, last: MessageExt | None) -> bool:
        """Whether a record that names this transaction, the last of its queue, is what was delivered of it.

        Of records with a commit's flag some were put by other brokers, for retries: those name offset 0.
        """
        return (
            last is not None
            and last.physical_offset > self.physical_offsets[-1]
            and last.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX) == self.unique_key
        )


def _note_end(op: Op, ended: set[int], ended_up_to: dict[int, int]) -> None:
    if op.half_offset < 0:
        return
    if op.origin is None:
        ended.add(op.half_offset)
    else:
        ended_up_to[op.origin] = max(op.half_offset, ended_up_to.get(op.origin, -1))


def _target(half: MessageExt) -> tuple[str, int] | None:
    try:
        return real_queue(half)
    except ValueError:
        return None


async def _unwritten_ends(store: MessageStore, newest: dict[int, _Newest], ends: QueueEnds) -> tuple[int, ...]:
    """Return the origins whose end is the last message of a queue: see rule 1 of the module."""
    queues = {each.target for each in newest.values() if each.target is not None}
    queues.update(queue for queue in ends if queue[0] in (SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC))
    by_origin: dict[int, MessageExt] = {}
    by_record: dict[int, MessageExt] = {}
    for topic, queue_id in queues & ends.keys():
        end = ends[topic, queue_id]
        async for records in read_queue(store, topic, queue_id, end - 1, end):
            found = readable_messages(records)
            if not found:
                continue
            last = found[0]
            is_commit = transaction_type(last.sys_flag) == TRANSACTION_COMMIT_TYPE
            origin = named_origin(last)
            if origin is not None and (is_commit or topic == TRANS_CHECK_MAX_TIME_TOPIC):
                by_origin[origin] = last
            if is_commit:
                by_record[last.prepared_transaction_offset] = last
    return tuple(
        origin
        for origin, each in newest.items()
        if any(map(each.may_have_ended_by, (by_origin.get(origin), *map(by_record.get, each.physical_offsets))))
    )
