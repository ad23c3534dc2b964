"""Conversion between a transactional message and its half message.

A half message is an ordinary record of RMQ_SYS_TRANS_HALF_TOPIC, queue 0. Its properties name the target (REAL_TOPIC,
REAL_QID), the producer group (PGROUP, under ``aclStrict`` also the account) and, in a copy appended by a check round,
the queue offset of the first record (TRAN_PREPARED_QUEUE_OFFSET). That first queue offset identifies the transaction;
it is called its *origin*.

Values only: nothing here reads or writes a store.

Compatibility: ``TransactionalMessageBridge.parseHalfMessageInner`` and ``renewHalfMessageInner``,
``EndTransactionProcessor.endMessageTransaction`` (4.9.8). RocketMQ names the origin only in the copies of
messages with CHECK_IMMUNITY_TIME_IN_SECONDS; here every copy has it, so that a transaction ends only once, whichever of
its copies the end names.
"""

from __future__ import annotations

from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    encode_properties,
)
from rocketpy.protocol.sysflag import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    with_transaction_type,
)
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC

PROPERTY_ACCOUNT = "ROCKETPY_ACCOUNT"
"""Property with the access key of the account that sent a half message, under ``aclStrict`` only. Only this account is
asked about the transaction and may end it. Clients can neither set nor see the property."""

HALF_QUEUE_ID = 0
"""The only queue of the half topic."""

COPY_RESERVE = 128
"""Bytes of properties that copies of a half message add: two names with numbers of up to 19 digits."""

_QUEUE_ID_MAX = 2**31 - 1
_HALF_PROPERTIES_MAX = PROPERTIES_SIZE_MAX - COPY_RESERVE


def half_message(message: MessageExtBrokerInner) -> None:
    """Rewrite a producer's message into its half message, in place.

    Properties reserved for copies of half messages have been removed by the caller. RequestError(MESSAGE_ILLEGAL) when
    the properties leave no room for the broker's own: such a message could be stored but never be checked.
    """
    message.properties[PROPERTY_REAL_TOPIC] = message.topic
    message.properties[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
    size = len(encode_properties(message.properties).encode())
    if size > _HALF_PROPERTIES_MAX:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the properties of a transactional message have {size} bytes with the broker's own, the limit is "
            f"{_HALF_PROPERTIES_MAX}",
        )
    message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NOT_TYPE)
    message.topic = TRANS_HALF_TOPIC
    message.queue_id = HALF_QUEUE_ID


def restored(half: MessageExt) -> MessageExtBrokerInner:
    """Return the message that a commit of ``half`` delivers: the reverse of :func:`half_message`.

    The body must be as stored. REAL_TOPIC, REAL_QID and TRAN_MSG stay among the properties, as in RocketMQ. Raises
    ValueError when ``half`` has no valid target.
    """
    topic, queue_id = real_queue(half)
    message = MessageExtBrokerInner.of_stored(half, topic=topic, queue_id=queue_id)
    message.properties.pop(PROPERTY_ACCOUNT, None)
    message.sys_flag = with_transaction_type(half.sys_flag, TRANSACTION_COMMIT_TYPE)
    message.prepared_transaction_offset = half.physical_offset
    return message


def copied(half: MessageExt, *, topic: str = TRANS_HALF_TOPIC) -> MessageExtBrokerInner:
    """Return a copy of ``half`` that names its origin, for the half topic or TRANS_CHECK_MAX_TIME_TOPIC."""
    message = MessageExtBrokerInner.of_stored(half, topic=topic, queue_id=HALF_QUEUE_ID)
    message.properties[PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET] = str(origin_of(half))
    return message


def origin_of(half: MessageExt) -> int:
    """Return the origin of the transaction to which a half record belongs."""
    named = named_origin(half)
    return half.queue_offset if named is None else named


def named_origin(message: MessageExt) -> int | None:
    """Return the origin named by a copy of a half message, in any topic; None without a valid one."""
    text = message.properties.get(PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def real_queue(half: MessageExt) -> tuple[str, int]:
    """Return the target topic and queue of ``half``; ValueError names the missing or invalid property."""
    topic = half.properties.get(PROPERTY_REAL_TOPIC, "")
    text = half.properties.get(PROPERTY_REAL_QUEUE_ID, "")
    if not topic:
        raise ValueError(f"half message at {half.physical_offset}: expected {PROPERTY_REAL_TOPIC}, found none")
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _QUEUE_ID_MAX):
        raise ValueError(
            f"half message at {half.physical_offset}: expected {PROPERTY_REAL_QUEUE_ID} from 0 to {_QUEUE_ID_MAX}, "
            f"found {text!r}"
        )
    return topic, int(text)
