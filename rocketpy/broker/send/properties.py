"""What the properties of a send mean to the broker: what is stored of them, indexed, hashed, refused.

Text is ``NAME 1 VALUE 2 NAME 1 VALUE``. A Java producer's ordinary message is recognised in one step by a pattern;
plain properties in any other order or number are taken apart; whatever changes what a send means is for the whole road
of :mod:`.send`. Pure functions, shared by single sends and batches. The rules are those of RocketMQ 4.9.8
(``MessageDecoder``, ``SendMessageProcessor``): the broker adds CLUSTER, and leaves WAIT out of a single send.
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

BROKERS_WORD = frozenset(
    (
        PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
        PROPERTY_TRANSACTION_CHECK_TIMES,
        PROPERTY_ACCOUNT,
    )
)
"""Properties that only a broker may write, since it believes them when it reads its store. Clients send them in good
faith, with the properties of a message that they have consumed and pass on; they are taken away."""

CLIENT_SYS_FLAGS = ~TRANSACTION_COMMIT_TYPE
"""The bits of sysFlag that a client may set. It prepares a transaction; that one was committed is for the broker to
say: a start takes the last record of a queue that says so for the end of a transaction."""

NOT_PLAIN = BROKERS_WORD | {"DELAY", "TRAN_MSG", "CLUSTER", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"}
"""Properties that change what a send means, or that the broker itself adds: the hot road declines them."""

WAIT_TRUE = "\x02WAIT\x01true"
WAIT_TRUE_BACK = -len(WAIT_TRUE)
_USUAL = (
    "(?:KEYS\x01([^\x01\x02]{1,8000})\x02)?UNIQ_KEY\x01([^\x01\x02]{1,1000})\x02WAIT\x01true"
    "(?:\x02TAGS\x01([^\x01\x02]{1,200}))?"
)
"""The properties of a Java producer's ordinary message, in the order of its hash map.

What they cost is bounded by the pattern: no other look at their length is taken. Longer ones are read in full.
"""
_KEYS, _UNIQUE_KEY = 1, 2  # the groups of that pattern
_BETWEEN_KEYS = b"\x02UNIQ_KEY\x01"
match_usual = re.compile(_USUAL).fullmatch
_match_usual_bytes = re.compile(_USUAL.encode()).fullmatch

BATCH_BYTES_MAX = 12 << 20
"""What a batch may become when each of its messages has the properties of the whole batch: it is made in memory, and
written in one step."""

BATCH_PROPERTIES_MAX = 200_000
"""Properties and keys of all messages of a batch: each costs a tenth of a microsecond at least."""

READ_BY_DISPATCH = frozenset(("TAGS", "KEYS", "UNIQ_KEY"))
"""Properties that queues and index are made of."""

_TAGS_REMEMBERED_MAX = 200
"""Longer tags (in characters) are hashed anew each time, so that the caches hold little."""

remembered_tags_code = lru_cache(maxsize=4096)(tags_code)


@lru_cache(maxsize=4096)
def _tags_code_of_bytes(tags: bytes | None) -> int:
    return 0 if tags is None else tags_code(tags.decode("utf-8", "replace"))


_SHOWN_MAX = 20
_MULTI_QUEUE_OFFSET = PROPERTY_INNER_MULTI_QUEUE_OFFSET.encode()
_KEYS_BYTES = b"KEYS\x01"
_BROKERS_WORD_BYTES = tuple(name.encode() for name in BROKERS_WORD)
PERHAPS_BROKERS_WORD = b"_QUEUE_OFFSET"
"""What a batch contains that has a property of the broker's own which matters without its sysFlag. Looked for in whole
bodies, so it is one text: the end of INNER_MULTI_QUEUE_OFFSET and of TRAN_PREPARED_QUEUE_OFFSET."""

BROKERS_OWN = f"the property {PROPERTY_INNER_MULTI_QUEUE_OFFSET} is the broker's own and may not be sent"


def plain_properties(text: str) -> tuple[str, tuple[bytes, ...], str | None] | None:
    """Return (stored text without WAIT, index keys, tags) of plain properties in any order; None when not plain."""
    entries = (text[:-1] if text[-1:] == "\x02" else text).split("\x02")  # older clients end the last entry too
    properties: dict[str, str] = {}
    for entry in entries:
        name, _, value = entry.partition("\x01")
        properties[name] = value
    if len(properties) != len(entries) or "" in properties or "" in properties.values():
        return None
    if properties.get("WAIT", "true") != "true" or not NOT_PLAIN.isdisjoint(properties):
        return None
    tags = properties.get("TAGS")
    if tags is not None and len(tags) > _TAGS_REMEMBERED_MAX:
        return None
    stored = "\x02".join([entry for entry in entries if entry != "WAIT\x01true"])
    if not stored:
        return None
    return stored, index_keys(properties.get("UNIQ_KEY"), properties.get("KEYS")), tags


_NOTHING: Mapping[str, str] = {}

Meaning: TypeAlias = tuple[int, tuple[bytes, ...]]
"""Tags code and index keys."""


def stored_batch(columns: BatchColumns, suffix: bytes, *, suffix_says_nothing: bool) -> MessageBatch:
    """Return the messages of a batch as they are stored: each with its own properties and behind them the batch's.

    ``suffix`` are the properties of the whole batch; where they name tags or keys too, theirs count.
    """
    flags, bodies, all_properties = columns
    alike = _alike_meanings(all_properties) if suffix_says_nothing else None
    if alike is not None:
        usual_suffix = b"\x02" + suffix
        return MessageBatch(flags, bodies, [own + usual_suffix for own in all_properties], *alike)
    if suffix_says_nothing:
        meanings = list(map(_meaning, all_properties))
    else:
        meanings = _shared_meanings(all_properties, decode_properties(suffix.decode("utf-8", "replace")))
    stored = [own + (b"\x02" if own and not own.endswith(b"\x02") else b"") + suffix for own in all_properties]
    codes, keys = zip(*meanings, strict=True)
    return MessageBatch(flags, bodies, stored, codes, keys)


def _alike_meanings(all_properties: Sequence[bytes]) -> tuple[list[int], list[tuple[bytes, ...]]] | None:
    """Return tags codes and index keys of a producer's ordinary messages that differ in their keys only.

    So do those of most batches. Keys are taken from where the first text has them. If all texts can be put together
    again from these and from what the first one has around them, they have the form of the first. None if not.
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
    return unique_key, *filter(None, keys_text.split(b" "))


def _unusual_meaning(text: bytes) -> Meaning:
    own = _own_properties(text)
    return tags_code(own.get("TAGS")), index_keys(own.get("UNIQ_KEY"), own.get("KEYS"))


def _shared_meanings(all_properties: Sequence[bytes], shared: Mapping[str, str]) -> list[Meaning]:
    """Return what messages mean when the whole batch names tags or keys: those are read once, not for each message."""
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
    """Whether a batch is one that may be stored: each message gets the properties of the whole batch."""
    count = len(columns.bodies)
    return (
        count > 0
        and len(body) + count * len(suffix) <= BATCH_BYTES_MAX
        and (
            (len(body) <= BATCH_PROPERTIES_MAX and _KEYS_BYTES not in suffix)
            or count_properties(columns, suffix) <= BATCH_PROPERTIES_MAX
        )
    )


def count_properties(columns: BatchColumns, suffix: bytes) -> int:
    """Return about how many properties and keys the messages of a batch have, none of which is taken apart for that.

    Keys of the whole batch are indexed for each of its messages.
    """
    shared_count = 0
    if _KEYS_BYTES in suffix:
        shared_count = min(suffix.count(b" ") + 1, INDEX_KEYS_MAX) * len(columns.bodies)
    if sum(map(len, columns.properties)) <= BATCH_PROPERTIES_MAX:
        return shared_count  # of their own they cannot have too many
    return shared_count + sum(own.count(b"\x02") + own.count(b" ") for own in columns.properties)


def client_properties(text: str | None, *, comes_back: bool = False) -> dict[str, str]:
    """Return the properties that a client has sent, without those that are the broker's word.

    Every way of a message into the store begins here, or has found by :data:`NOT_PLAIN` that it need not. A message
    that ``comes_back`` (to a retry topic) has lost the queues that it named; any other is refused if it says where in
    them it lies.
    """
    properties = decode_properties(text or "")
    if comes_back:
        leave_named_queues(properties)
    refuse_brokers_own(properties)
    take_away_brokers_word(properties)
    return properties


def take_away_brokers_word(properties: dict[str, str]) -> None:
    """Remove what only a broker may say of a message: see :data:`BROKERS_WORD`."""
    for name in BROKERS_WORD:
        properties.pop(name, None)


def client_columns(columns: BatchColumns) -> BatchColumns:
    """Return the messages of a batch as :func:`client_properties` does: without the broker's word, or refused."""
    if any(_MULTI_QUEUE_OFFSET in own for own in columns.properties):
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, BROKERS_OWN)
    if not any(name in own for own in columns.properties for name in _BROKERS_WORD_BYTES):
        return columns
    return columns._replace(properties=tuple(map(_client_text, columns.properties)))


def _client_text(own: bytes) -> bytes:
    if not any(name in own for name in _BROKERS_WORD_BYTES):
        return own
    properties = decode_properties(own.decode("utf-8", "replace"))
    take_away_brokers_word(properties)
    return encode_properties(properties).encode()


def refuse_brokers_own(properties: Mapping[str, str]) -> None:
    """Refuse what only a broker may write: recovery believes it, and would put the message into queues of any name."""
    if PROPERTY_INNER_MULTI_QUEUE_OFFSET in properties:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, BROKERS_OWN)


def leave_named_queues(properties: dict[str, str]) -> None:
    """Take the names of queues from a message that comes back: it is for the group that gave it back alone."""
    properties.pop(PROPERTY_INNER_MULTI_DISPATCH, None)
    properties.pop(PROPERTY_INNER_MULTI_QUEUE_OFFSET, None)


def refuse_unreadable_delay(properties: Mapping[str, str]) -> None:
    """Refuse a delay that is no number: the message would be delivered at once. RocketMQ has a failure of its own."""
    text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
    if text is not None and read_delay_level(text) is None:
        remark = f"property {PROPERTY_DELAY_TIME_LEVEL}: expected an integer, found {text[:_SHOWN_MAX]!r}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def is_transactional(properties: Mapping[str, str]) -> bool:
    """Whether a message is to wait for its producer's word."""
    return properties.get(PROPERTY_TRANSACTION_PREPARED, "").lower() == "true"


def refuse_special_batch(shared: Mapping[str, str]) -> None:
    """Refuse a batch that is to wait: a delay as RocketMQ's store does, a transaction although RocketMQ delivers it.

    Compatibility: ``CommitLog.asyncPutMessages`` (4.9.8). What single messages of a batch say of delays and
    transactions counts for nothing, here and there; RocketMQ's client makes no such batches.
    """
    refuse_unreadable_delay(shared)
    delay = shared.get(PROPERTY_DELAY_TIME_LEVEL, "0")
    if int(delay) > 0 or is_transactional(shared):
        name = PROPERTY_TRANSACTION_PREPARED if is_transactional(shared) else PROPERTY_DELAY_TIME_LEVEL
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: a batch cannot have the property {name}={shared[name]}",
        )
