"""Op messages: the records that mark half messages as ended.

An op message is in queue 0 of the op topic, has the tag ``d``, and its body is the decimal half queue offset of the
ended record. When the ended record is a copy, ours name the transaction's origin in TRAN_PREPARED_QUEUE_OFFSET: all
records of this origin up to the offset in the body are ended.

Compatibility: ``TransactionalMessageBridge.addRemoveTagInTransactionOp`` (4.9.8), which writes no origin and ignores
ours. WAIT=true is stored as RocketMQ does.
"""

from __future__ import annotations

import attrs

from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.broker.transaction.readable import readable_messages
from rocketpy.protocol.properties import (
    PROPERTY_TAGS,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    PROPERTY_WAIT_STORE_MSG_OK,
)
from rocketpy.protocol.stored_message import Buffer
from rocketpy.protocol.topic_name import TRANS_OP_HALF_TOPIC

OP_QUEUE_ID = 0
"""The op queue of a half queue has its number, and there is one half queue."""

REMOVE_TAG = "d"

_OFFSET_DIGITS_MAX = 19


@attrs.frozen
class Op:
    """One op message: its op queue offset, and the half message that it ends."""

    queue_offset: int
    half_offset: int  # -1 for a record that is not an op message
    origin: int | None = None


def op_message(half_offset: int, origin: int | None, *, timestamp_ms: int, host: bytes) -> MessageExtBrokerInner:
    """Return the op message that ends the half message at ``half_offset``; ``host`` is the broker's own."""
    properties = {PROPERTY_TAGS: REMOVE_TAG, PROPERTY_WAIT_STORE_MSG_OK: "true"}
    if origin is not None:
        properties[PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET] = str(origin)
    return MessageExtBrokerInner(
        topic=TRANS_OP_HALF_TOPIC,
        queue_id=OP_QUEUE_ID,
        body=b"%d" % half_offset,
        properties=properties,
        born_timestamp=timestamp_ms,
        born_host=host,
    )


def decode_ops(records: Buffer) -> list[Op]:
    """Decode consecutive records into op messages, in order; damaged ones are skipped."""
    ops = []
    for message in readable_messages(records, TRANS_OP_HALF_TOPIC):
        half_offset = _offset(message.body) if message.tags == REMOVE_TAG else None
        origin = _offset(message.properties.get(PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET, "").encode())
        ops.append(Op(message.queue_offset, -1 if half_offset is None else half_offset, origin))
    return ops


def _offset(text: bytes) -> int | None:
    """Return the queue offset in ``text``, None when it is not one."""
    return int(text) if text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX else None
