"""What a transactional message looks like while nobody knows whether it is to be delivered, and how it comes back.

A half message is an ordinary record of RMQ_SYS_TRANS_HALF_TOPIC, queue 0, whose properties say where it is to go
(REAL_TOPIC, REAL_QID), whose it is (PGROUP, under ``aclStrict`` also the account) and, when it is a copy that a check
round has made, which queue offset its first record had (TRAN_PREPARED_QUEUE_OFFSET). That first offset is the
transaction's name, its *origin*.

Values only: nothing here reads or writes a store.

Compatibility: ``TransactionalMessageBridge.parseHalfMessageInner`` and ``renewHalfMessageInner``,
``EndTransactionProcessor.endMessageTransaction`` (4.9.8); broker.md 15. RocketMQ names the origin only in the copies of
messages with CHECK_IMMUNITY_TIME_IN_SECONDS; here every copy has it, so that a transaction ends once, whichever of its
copies it is ended by.
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
"""The access key of the account that sent a half message, in its records only, and only under ``aclStrict``: who is
asked about it, and who may end it. Clients cannot write it, and are not shown it with the message."""

HALF_QUEUE_ID = 0
"""The only queue of the half topic."""

COPY_RESERVE = 128
"""Bytes of properties that the copies of a half message need beyond its own: two names and numbers of 19 digits."""

_QUEUE_ID_MAX = 2**31 - 1
_HALF_PROPERTIES_MAX = PROPERTIES_SIZE_MAX - COPY_RESERVE


def half_message(message: MessageExtBrokerInner) -> None:
    """Rewrite a message that a producer has sent into its half message, in place.

    Its properties are a client's, without those that copies of half messages have.
    RequestError(MESSAGE_ILLEGAL) when its properties leave no room for the broker's own: it could be stored and never
    be checked.
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

    The body must be as it is stored. REAL_TOPIC, REAL_QID and TRAN_MSG stay among the properties, as RocketMQ stores
    them. Raises ValueError when ``half`` does not say where it is to go.
    """
    topic, queue_id = real_queue(half)
    message = MessageExtBrokerInner.of_stored(half, topic=topic, queue_id=queue_id)
    message.properties.pop(PROPERTY_ACCOUNT, None)
    message.sys_flag = with_transaction_type(half.sys_flag, TRANSACTION_COMMIT_TYPE)
    message.prepared_transaction_offset = half.physical_offset
    return message


def copied(half: MessageExt, *, topic: str = TRANS_HALF_TOPIC) -> MessageExtBrokerInner:
    """Return another record of ``half`` for the half topic (or the topic of those given up), naming its origin."""
    message = MessageExtBrokerInner.of_stored(half, topic=topic, queue_id=HALF_QUEUE_ID)
    message.properties[PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET] = str(origin_of(half))
    return message


def origin_of(half: MessageExt) -> int:
    """Return the origin of the transaction that a record of the half topic belongs to."""
    named = named_origin(half)
    return half.queue_offset if named is None else named


def named_origin(message: MessageExt) -> int | None:
    """Return the origin that a copy of a half message names, wherever it lies; None when it names none."""
    text = message.properties.get(PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def real_queue(half: MessageExt) -> tuple[str, int]:
    """Return topic and queue that ``half`` is meant for; ValueError names the property that does not say."""
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
