"""Properties of a send: which are stored, indexed, hashed or refused.

The text is ``NAME 1 VALUE 2 NAME 1 VALUE``. A pattern recognises a Java producer's ordinary message in one step. Plain
properties in any other order or number are split. Properties that change what a send means are left to the general path
(:mod:`.processor`). Pure functions, shared by single sends and batches. The rules are those of RocketMQ 4.9.8
(``MessageDecoder``, ``SendMessageProcessor``): the broker adds CLUSTER, and removes WAIT from a single send.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import iter_unpack
from typing import TypeAlias

from rocketpy.broker.transaction.half_message import PROPERTY_ACCOUNT
from rocketpy.errors import RequestError
from rocketpy.protocol.batch import BatchColumns
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.delay_level import read_delay_level
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import (
    INDEX_KEYS_MAX,
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_PREPARED,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    decode_properties,
    encode_properties,
    index_keys,
)
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE
from rocketpy.store.append.batch import MessageBatch

BROKER_ONLY_PROPERTIES = frozenset(
    (
        PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
        PROPERTY_TRANSACTION_CHECK_TIMES,
        PROPERTY_ACCOUNT,
    )
)
"""Properties that only a broker may write, because it trusts them when it reads its store. Clients send them in good
faith when they forward a message that they have consumed, so they are removed, not refused."""

_NOT_FROM_CLIENTS = BROKER_ONLY_PROPERTIES | {PROPERTY_INNER_MULTI_QUEUE_OFFSET}

CLIENT_SYS_FLAGS = ~TRANSACTION_COMMIT_TYPE
"""The bits of sysFlag that a client may set. A client prepares a transaction; only the broker marks one as committed,
because recovery takes the last such record of a queue for the end of a transaction."""

NOT_PLAIN = BROKER_ONLY_PROPERTIES | {
    "DELAY",
    "TRAN_MSG",
    "CLUSTER",
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
}
"""Properties that change what a send means, or that the broker itself adds. The fast path declines them."""

WAIT_TRUE = "\x02WAIT\x01true"
WAIT_TRUE_BACK = -len(WAIT_TRUE)
_USUAL = (
    "(?:KEYS\x01([^\x01\x02]{1,8000})\x02)?UNIQ_KEY\x01([^\x01\x02]{1,1000})\x02WAIT\x01true"
    "(?:\x02TAGS\x01([^\x01\x02]{1,200}))?"
)
"""The properties of a Java producer's ordinary message, in the order of its hash map.

The pattern bounds the cost of parsing: there is no other check of the length. Longer properties are split in full.
"""
_KEYS, _UNIQUE_KEY = 1, 2  # the groups of that pattern
_BETWEEN_KEYS = b"\x02UNIQ_KEY\x01"
match_usual = re.compile(_USUAL).fullmatch
_match_usual_bytes = re.compile(_USUAL.encode()).fullmatch

BATCH_BYTES_MAX = 12 << 20
"""Limit for a batch once each of its messages has the properties of the whole batch: it is built in memory and
written in one step."""

BATCH_PROPERTIES_MAX = 200_000
"""Limit for the properties and keys of all messages of a batch: each costs 0.1 microseconds at least."""

READ_BY_DISPATCH = frozenset(("TAGS", "KEYS", "UNIQ_KEY"))
"""Properties that the dispatch to queues and index reads."""

_TAGS_CACHED_MAX = 200
"""Characters; longer tags are hashed each time and not cached, which bounds the caches."""

cached_tags_code = lru_cache(maxsize=4096)(tags_code)


@lru_cache(maxsize=4096)
def _tags_code_of_bytes(tags: bytes | None) -> int:
    return 0 if tags is None else tags_code(tags.decode("utf-8", "replace"))


_SHOWN_MAX = 20
_MULTI_QUEUE_OFFSET = PROPERTY_INNER_MULTI_QUEUE_OFFSET.encode()
KEYS_MARK = b"KEYS\x01"
"""Present in every text that has keys."""

_BROKER_ONLY_BYTES = tuple(name.encode() for name in BROKER_ONLY_PROPERTIES)
BROKER_ONLY_MARK = b"_QUEUE_OFFSET"
"""Present in the body of every batch with a broker-only property that has an effect without its sysFlag. It is searched
in whole bodies, so it is one text: the end of INNER_MULTI_QUEUE_OFFSET and of TRAN_PREPARED_QUEUE_OFFSET."""

_MULTI_QUEUE_OFFSET_REFUSED = (
    f"the property {PROPERTY_INNER_MULTI_QUEUE_OFFSET} is the broker's own and may not be sent"
)


def plain_properties(text: str) -> tuple[str, tuple[bytes, ...], str | None] | None:
    """Return (stored text without WAIT, index keys, tags) of plain properties in any order; None when not plain."""
    entries = (text[:-1] if text[-1:] == "\x02" else text).split("\x02")  # older clients also terminate the last entry
    properties: dict[str, str] = {}
    for entry in entries:
        name, _, value = entry.partition("\x01")
        properties[name] = value
    if len(properties) != len(entries) or "" in properties or "" in properties.values():
        return None
    if properties.get("WAIT", "true") != "true" or not NOT_PLAIN.isdisjoint(properties):
        return None
    tags = properties.get("TAGS")
    if tags is not None and len(tags) > _TAGS_CACHED_MAX:
        return None
    stored = "\x02".join([entry for entry in entries if entry != "WAIT\x01true"])
    if not stored:
        return None
    return stored, index_keys(properties.get("UNIQ_KEY"), properties.get("KEYS")), tags


_NOTHING: Mapping[str, str] = {}

Meaning: TypeAlias = tuple[int, tuple[bytes, ...]]
"""Tags code and index keys."""


def stored_batch(columns: BatchColumns, suffix: bytes, *, suffix_has_no_tags_or_keys: bool) -> MessageBatch:
    """Return the messages of a batch as they are stored: each with its own properties followed by the batch's.

    ``suffix`` is the text of the properties of the whole batch; its tags and keys take precedence over a message's own.
    """
    flags, bodies, all_properties = columns
    alike = _alike_meanings(all_properties) if suffix_has_no_tags_or_keys else None
    if alike is not None:
        usual_suffix = b"\x02" + suffix
        return MessageBatch(flags, bodies, [own + usual_suffix for own in all_properties], *alike)
    if suffix_has_no_tags_or_keys:
        meanings = list(map(_meaning, all_properties))
    else:
        meanings = _shared_meanings(all_properties, decode_properties(suffix.decode("utf-8", "replace")))
    stored = [own + (b"\x02" if own and not own.endswith(b"\x02") else b"") + suffix for own in all_properties]
    codes, keys = zip(*meanings, strict=True)
    return MessageBatch(flags, bodies, stored, codes, keys)


def _alike_meanings(all_properties: Sequence[bytes]) -> tuple[list[int], list[tuple[bytes, ...]]] | None:
    """Return tags codes and index keys of a producer's ordinary messages that differ in their keys only.

    Most batches are of this kind. The keys are read at their position in the first text. If joining them with the first
    text's surroundings reproduces all texts, every text has the form of the first. Otherwise return None.
    """
    first, count = all_properties[0], len(all_properties)
    match = _match_usual_bytes(first)
    if match is None or len(set(map(len, all_properties))) > 1:
        return None
    keys_text, _, tags = match.groups()
    begin, end = match.span(_UNIQUE_KEY)
    if keys_text is not None:
        begin = match.start(_KEYS)
    before, after, joined = first[:begin], first[end:], b"".join(all_properties)
    keys: list[tuple[bytes, ...]] = list(iter_unpack(f"{begin}x{end - begin}s{len(after)}x", joined))
    values = [value for (value,) in keys]
    if before + (after + before).join(values) + after != joined:
        return None
    if keys_text is not None:
        split = [value.split(_BETWEEN_KEYS) for value in values]
        if any(len(parts) != 2 or not all(parts) for parts in split):
            return None
        keys = [_keys_of_usual(unique_key, text) for text, unique_key in split]
        values = [part for parts in split for part in parts]
    joined_keys = b"".join(values)
    if b"\x01" in joined_keys or b"\x02" in joined_keys:
        return None
    return [_tags_code_of_bytes(tags)] * count, keys


def _meaning(own: bytes) -> Meaning:
    match = _match_usual_bytes(own)
    if match is None:
        return _unusual_meaning(own)
    keys_text, unique_key, tags = match.groups()
    return _tags_code_of_bytes(tags), (unique_key,) if keys_text is None else _keys_of_usual(unique_key, keys_text)


def _keys_of_usual(unique_key: bytes, keys_text: bytes) -> tuple[bytes, ...]:
    return (unique_key, *filter(None, keys_text.split(b" ")))[:INDEX_KEYS_MAX]


def _unusual_meaning(text: bytes) -> Meaning:
    own = _own_properties(text)
    return tags_code(own.get("TAGS")), index_keys(own.get("UNIQ_KEY"), own.get("KEYS"))


def _shared_meanings(all_properties: Sequence[bytes], shared: Mapping[str, str]) -> list[Meaning]:
    """Return the meanings of messages whose batch names tags or keys; those are parsed once for the batch."""
    shared_tags, unique_key, keys_text = (shared.get(name) for name in ("TAGS", "UNIQ_KEY", "KEYS"))
    code = tags_code(shared_tags) if shared_tags else None
    keys = index_keys(None, keys_text)
    meanings: list[Meaning] = []
    for text in all_properties:
        own = _own_properties(text)
        first = index_keys(unique_key or own.get("UNIQ_KEY"), None if keys_text else own.get("KEYS"))
        meanings.append((tags_code(own.get("TAGS")) if code is None else code, (*first, *keys)[:INDEX_KEYS_MAX]))
    return meanings


def _own_properties(text: bytes) -> Mapping[str, str]:
    return decode_properties(text.decode("utf-8", "replace")) if text else _NOTHING


def fits_as_batch(columns: BatchColumns, body: bytes, suffix: bytes) -> bool:
    """Return whether a batch is within the limits once each message has the properties of the whole batch."""
    count = len(columns.bodies)
    return (
        count > 0
        and len(body) + count * len(suffix) <= BATCH_BYTES_MAX
        and (
            (len(body) <= BATCH_PROPERTIES_MAX and KEYS_MARK not in suffix)
            or count_properties(columns, suffix) <= BATCH_PROPERTIES_MAX
        )
    )


def count_properties(columns: BatchColumns, suffix: bytes) -> int:
    """Estimate how many properties and keys the messages of a batch have, without splitting any text.

    Keys of the whole batch are indexed for each of its messages.
    """
    shared_count = 0
    if KEYS_MARK in suffix:
        shared_count = min(suffix.count(b" ") + 1, INDEX_KEYS_MAX) * len(columns.bodies)
    if sum(map(len, columns.properties)) <= BATCH_PROPERTIES_MAX:
        return shared_count  # their own texts are too short for too many
    return shared_count + sum(own.count(b"\x02") + own.count(b" ") for own in columns.properties)


def client_properties(text: str | None, *, is_retry: bool = False) -> dict[str, str]:
    """Return the properties that a client has sent, without :data:`BROKER_ONLY_PROPERTIES`.

    Every path of a message into the store calls this, unless :data:`NOT_PLAIN` shows that it has none of them. With
    ``is_retry`` (a send to a retry topic) the named light queues are removed. Otherwise RequestError when the message
    carries offsets in such queues.
    """
    properties = decode_properties(text or "")
    if is_retry:
        remove_named_queues(properties)
    if not _NOT_FROM_CLIENTS.isdisjoint(properties):
        refuse_multi_queue_offset(properties)
        remove_broker_only_properties(properties)
    return properties


def remove_broker_only_properties(properties: dict[str, str]) -> None:
    """Remove :data:`BROKER_ONLY_PROPERTIES`, in place."""
    for name in BROKER_ONLY_PROPERTIES:
        properties.pop(name, None)


def client_columns(columns: BatchColumns) -> BatchColumns:
    """Apply the rules of :func:`client_properties` to each message of a batch."""
    if any(_MULTI_QUEUE_OFFSET in own for own in columns.properties):
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, _MULTI_QUEUE_OFFSET_REFUSED)
    if not any(name in own for own in columns.properties for name in _BROKER_ONLY_BYTES):
        return columns
    return columns._replace(properties=tuple(map(_client_text, columns.properties)))


def _client_text(own: bytes) -> bytes:
    if not any(name in own for name in _BROKER_ONLY_BYTES):
        return own
    properties = decode_properties(own.decode("utf-8", "replace"))
    remove_broker_only_properties(properties)
    return encode_properties(properties).encode()


def refuse_multi_queue_offset(properties: Mapping[str, str]) -> None:
    """Refuse offsets in named queues: recovery trusts them, and would put the message into queues of any name."""
    if PROPERTY_INNER_MULTI_QUEUE_OFFSET in properties:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, _MULTI_QUEUE_OFFSET_REFUSED)


def remove_named_queues(properties: dict[str, str]) -> None:
    """Remove the names of light queues, in place: a message that is sent back is for its group alone."""
    properties.pop(PROPERTY_INNER_MULTI_DISPATCH, None)
    properties.pop(PROPERTY_INNER_MULTI_QUEUE_OFFSET, None)


def refuse_unreadable_delay(properties: Mapping[str, str]) -> None:
    """Refuse a delay that is not a number, which would be delivered at once. RocketMQ fails on it as well."""
    text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
    if text is not None and read_delay_level(text) is None:
        remark = f"property {PROPERTY_DELAY_TIME_LEVEL}: expected an integer, found {text[:_SHOWN_MAX]!r}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def is_transactional(properties: Mapping[str, str]) -> bool:
    """Return whether a message is prepared for a transaction."""
    return properties.get(PROPERTY_TRANSACTION_PREPARED, "").lower() == "true"


def refuse_special_batch(shared: Mapping[str, str]) -> None:
    """Refuse a delayed batch, as RocketMQ's store does, and a transactional one, which RocketMQ delivers.

    Compatibility: ``CommitLog.asyncPutMessages`` (4.9.8). Delays and transactions in the properties of single messages
    of a batch are ignored by both; RocketMQ's client does not build such batches.
    """
    refuse_unreadable_delay(shared)
    delay = shared.get(PROPERTY_DELAY_TIME_LEVEL, "0")
    if int(delay) > 0 or is_transactional(shared):
        name = PROPERTY_TRANSACTION_PREPARED if is_transactional(shared) else PROPERTY_DELAY_TIME_LEVEL
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: a batch cannot have the property {name}={shared[name]}",
        )
