"""Message properties: their names (``MessageConst``) and the text they are stored and sent as.

The text is ``name 0x01 value 0x02 name 0x01 value`` in UTF-8. Nothing escapes the two separators, so a name or value
that contains one does not survive; nor does an empty value. Limits are enforced by the store and the broker.
"""

from __future__ import annotations

from collections.abc import Mapping

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
PROPERTIES_SIZE_MAX = 32767
"""The length of the text in bytes is a signed int16 in a record; a header is checked against as many characters."""

PROPERTIES_TEXT_MAX = 2 * PROPERTIES_SIZE_MAX
"""Longer texts (in characters) are refused before they are parsed. More than a record holds, because some of what a
client sends is not stored."""

KEY_SEPARATOR = " "
INDEX_KEYS_MAX = 128
"""Limit on the indexed keys of a message: an index entry takes more disk space than the key in the message."""
ALL_INDEX_KEYS = PROPERTIES_SIZE_MAX
"""No limit: properties cannot hold as many keys."""


PROPERTY_KEYS = "KEYS"
PROPERTY_TAGS = "TAGS"
PROPERTY_WAIT_STORE_MSG_OK = "WAIT"
PROPERTY_DELAY_TIME_LEVEL = "DELAY"
PROPERTY_RETRY_TOPIC = "RETRY_TOPIC"
PROPERTY_REAL_TOPIC = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID = "REAL_QID"
PROPERTY_TRANSACTION_PREPARED = "TRAN_MSG"
PROPERTY_PRODUCER_GROUP = "PGROUP"
PROPERTY_MIN_OFFSET = "MIN_OFFSET"
PROPERTY_MAX_OFFSET = "MAX_OFFSET"
PROPERTY_BUYER_ID = "BUYER_ID"
PROPERTY_ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
PROPERTY_TRANSFER_FLAG = "TRANSFER_FLAG"
PROPERTY_CORRECTION_FLAG = "CORRECTION_FLAG"
PROPERTY_MQ2_FLAG = "MQ2_FLAG"
PROPERTY_RECONSUME_TIME = "RECONSUME_TIME"
PROPERTY_MSG_REGION = "MSG_REGION"
PROPERTY_TRACE_SWITCH = "TRACE_ON"
PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX = "UNIQ_KEY"
PROPERTY_MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
PROPERTY_CONSUME_START_TIMESTAMP = "CONSUME_START_TIME"
PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_INSTANCE_ID = "INSTANCE_ID"
PROPERTY_CORRELATION_ID = "CORRELATION_ID"
PROPERTY_MESSAGE_REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PROPERTY_MESSAGE_TTL = "TTL"
PROPERTY_REPLY_MESSAGE_ARRIVE_TIME = "ARRIVE_TIME"
PROPERTY_PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
PROPERTY_CLUSTER = "CLUSTER"
PROPERTY_MESSAGE_TYPE = "MSG_TYPE"
PROPERTY_INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
PROPERTY_INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"

# MessageConst.STRING_HASH_SET: names that a user may not set. Four of the names above are missing there.
RESERVED_PROPERTIES = frozenset(
    {
        PROPERTY_TRACE_SWITCH,
        PROPERTY_MSG_REGION,
        PROPERTY_KEYS,
        PROPERTY_TAGS,
        PROPERTY_WAIT_STORE_MSG_OK,
        PROPERTY_DELAY_TIME_LEVEL,
        PROPERTY_RETRY_TOPIC,
        PROPERTY_REAL_TOPIC,
        PROPERTY_REAL_QUEUE_ID,
        PROPERTY_TRANSACTION_PREPARED,
        PROPERTY_PRODUCER_GROUP,
        PROPERTY_MIN_OFFSET,
        PROPERTY_MAX_OFFSET,
        PROPERTY_BUYER_ID,
        PROPERTY_ORIGIN_MESSAGE_ID,
        PROPERTY_TRANSFER_FLAG,
        PROPERTY_CORRECTION_FLAG,
        PROPERTY_MQ2_FLAG,
        PROPERTY_RECONSUME_TIME,
        PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
        PROPERTY_MAX_RECONSUME_TIMES,
        PROPERTY_CONSUME_START_TIMESTAMP,
        PROPERTY_INSTANCE_ID,
        PROPERTY_CORRELATION_ID,
        PROPERTY_MESSAGE_REPLY_TO_CLIENT,
        PROPERTY_MESSAGE_TTL,
        PROPERTY_REPLY_MESSAGE_ARRIVE_TIME,
        PROPERTY_PUSH_REPLY_TIME,
        PROPERTY_CLUSTER,
        PROPERTY_MESSAGE_TYPE,
        PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    }
)


def encode_properties(properties: Mapping[str, str | None]) -> str:
    """Return the text of ``properties`` in their order; ``None`` is left out, and no separator ends it."""
    return PROPERTY_SEPARATOR.join(
        [f"{name}{NAME_VALUE_SEPARATOR}{value}" for name, value in properties.items() if value is not None]
    )


def decode_properties(text: str) -> dict[str, str]:
    """Return the properties in ``text``, in its order; never fails.

    As in Java an entry without a separator, a name or a value is dropped, the first 0x01 of an entry ends its name, and
    of a repeated name the last value counts. Older writers put a separator after the last entry too.
    """
    properties = {}
    for entry in text.split(PROPERTY_SEPARATOR):
        name, _, value = entry.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def index_keys(unique_key: str | None, keys: str | None, count_max: int = INDEX_KEYS_MAX) -> tuple[bytes, ...]:
    """Return the keys that IndexService indexes: the unique key first, then each part of KEYS, up to ``count_max``.

    Compatibility: RocketMQ indexes all of them, 16,000 of a message of 32 KB; so ``ALL_INDEX_KEYS`` is for those
    who read what a Java broker may have written.
    """
    parts = [unique_key.encode()] if unique_key else []
    if keys:
        parts += [part.encode() for part in keys.split(KEY_SEPARATOR) if part]
        del parts[count_max:]
    return tuple(parts)


def index_keys_of(properties: Mapping[str, str], count_max: int = INDEX_KEYS_MAX) -> tuple[bytes, ...]:
    """Return the index keys of a message with these properties, see :func:`index_keys`."""
    return index_keys(properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX), properties.get(PROPERTY_KEYS), count_max)
