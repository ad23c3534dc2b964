"""Records of message traces, as they are stored in the trace topic.

A record is text: its fields with 0x01 between them and 0x02 after the last one; a value that is missing is ``null``.
The first field is its type.

    Pub             timestamp regionId group topic msgId tags keys storeHost bodyLength costTime msgType offsetMsgId
                    success [clientHost]
    SubBefore       timestamp regionId group requestId msgId retryTimes keys [clientHost]
    SubAfter        requestId msgId costTime success keys [contextCode [timestamp group]]
    EndTransaction  timestamp regionId group topic msgId tags keys storeHost msgType transactionId state fromCheck

Fields in brackets are read, because other clients and versions write them; contextCode, timestamp and group of SubAfter
are written too. A record of any other type is skipped.

Compatibility: ``TraceDataEncoder`` (4.9.8), byte for byte the same. A record of fewer fields or with a number that is
none is an error with its text; there it is an exception of the JDK. Separators inside of tags and keys become blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from rocketpy.client.hooks import ConsumeReturnType, MessageType
from rocketpy.client.results import LocalTransactionState
from rocketpy.errors import RemoteProtocolError

CONTENT_SPLITOR = "\x01"
FIELD_SPLITOR = "\x02"
NULL = "null"
KEY_SEPARATOR = " "

_BLANKS = str.maketrans({CONTENT_SPLITOR: " ", FIELD_SPLITOR: " "})


@attrs.frozen(kw_only=True)
class PubTrace:
    """A message was sent. Times in ms, ``body_length`` in bytes; ``client_host`` only from other clients."""

    timestamp_ms: int
    region_id: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_length: int
    cost_time_ms: int
    message_type: MessageType
    offset_msg_id: str | None
    is_success: bool
    """Whether it was stored with SEND_OK."""
    client_host: str | None = None

    @property
    def fields(self) -> tuple[object, ...]:
        """What is written, in order."""
        return (
            "Pub",
            self.timestamp_ms,
            self.region_id,
            self.group,
            self.topic,
            self.msg_id,
            self.tags,
            self.keys,
            self.store_host,
            self.body_length,
            self.cost_time_ms,
            self.message_type.value,
            self.offset_msg_id,
            self.is_success,
        )


@attrs.frozen(kw_only=True)
class SubBeforeTrace:
    """A handler was given a message; ``request_id`` is the same in the record of its end."""

    timestamp_ms: int
    region_id: str | None
    group: str
    request_id: str
    msg_id: str
    retry_times: int
    keys: str | None

    @property
    def fields(self) -> tuple[object, ...]:
        """What is written, in order."""
        return (
            "SubBefore",
            self.timestamp_ms,
            self.region_id,
            self.group,
            self.request_id,
            self.msg_id,
            self.retry_times,
            self.keys,
        )


@attrs.frozen(kw_only=True)
class SubAfterTrace:
    """A handler has ended; ``cost_time_ms`` is its time divided by the messages of the batch.

    ``timestamp_ms`` and ``group`` are missing in records of clients in Alibaba's cloud.
    """

    request_id: str
    msg_id: str
    cost_time_ms: int
    is_success: bool
    keys: str | None
    return_type: ConsumeReturnType = ConsumeReturnType.SUCCESS
    timestamp_ms: int | None = None
    group: str | None = None

    @property
    def fields(self) -> tuple[object, ...]:
        """What is written, in order."""
        return (
            "SubAfter",
            self.request_id,
            self.msg_id,
            self.cost_time_ms,
            self.is_success,
            self.keys,
            self.return_type.value,
            self.timestamp_ms,
            self.group,
        )


@attrs.frozen(kw_only=True)
class EndTransactionTrace:
    """The verdict on a transaction was sent."""

    timestamp_ms: int
    region_id: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    message_type: MessageType
    transaction_id: str | None
    transaction_state: LocalTransactionState
    from_transaction_check: bool

    @property
    def fields(self) -> tuple[object, ...]:
        """What is written, in order."""
        return (
            "EndTransaction",
            self.timestamp_ms,
            self.region_id,
            self.group,
            self.topic,
            self.msg_id,
            self.tags,
            self.keys,
            self.store_host,
            self.message_type.value,
            self.transaction_id,
            self.transaction_state.name,
            self.from_transaction_check,
        )


TraceRecord = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace


def write_trace(record: TraceRecord) -> str:
    """Return a record as text."""
    return CONTENT_SPLITOR.join(map(_text, record.fields)) + FIELD_SPLITOR


def keys_of(record: TraceRecord) -> list[str]:
    """Return the keys by which a record is found: the id of its message, and the message's own keys."""
    return [record.msg_id, *(key for key in (record.keys or "").split(KEY_SEPARATOR) if key)]


def read_traces(text: str) -> list[TraceRecord]:
    """Return the records of known types; RemoteProtocolError for one that is damaged."""
    return list(_read_each(text))


def _read_each(text: str) -> Iterator[TraceRecord]:
    for record in text.split(FIELD_SPLITOR):
        fields = record.split(CONTENT_SPLITOR)
        reader = _READERS.get(fields[0])
        if reader is not None:
            try:
                yield reader(fields)
            except (IndexError, ValueError, KeyError) as failure:
                raise RemoteProtocolError(f"a trace record is damaged: {record[:500]!r}") from failure


def _text(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.translate(_BLANKS) if isinstance(value, str) else str(value)


def _or_none(text: str) -> str | None:
    return None if text == NULL else text


def _at(fields: Sequence[str], index: int) -> str | None:
    """Return a field that older records do not have."""
    return _or_none(fields[index]) if len(fields) > index else None


def _read_pub(fields: Sequence[str]) -> PubTrace:
    with_offset_id = len(fields) > 13
    return PubTrace(
        timestamp_ms=int(fields[1]),
        region_id=fields[2],
        group=fields[3],
        topic=fields[4],
        msg_id=fields[5],
        tags=_or_none(fields[6]),
        keys=_or_none(fields[7]),
        store_host=fields[8],
        body_length=int(fields[9]),
        cost_time_ms=int(fields[10]),
        message_type=MessageType(int(fields[11])),
        offset_msg_id=_or_none(fields[12]) if with_offset_id else None,
        is_success=fields[13 if with_offset_id else 12].lower() == "true",
        client_host=_at(fields, 14),
    )


def _read_sub_before(fields: Sequence[str]) -> SubBeforeTrace:
    return SubBeforeTrace(
        timestamp_ms=int(fields[1]),
        region_id=_or_none(fields[2]),
        group=fields[3],
        request_id=fields[4],
        msg_id=fields[5],
        retry_times=int(fields[6]),
        keys=_or_none(fields[7]),
    )


def _read_sub_after(fields: Sequence[str]) -> SubAfterTrace:
    timestamp = _at(fields, 7)
    return SubAfterTrace(
        request_id=fields[1],
        msg_id=fields[2],
        cost_time_ms=int(fields[3]),
        is_success=fields[4].lower() == "true",
        keys=_or_none(fields[5]),
        return_type=ConsumeReturnType(int(_at(fields, 6) or 0)),
        timestamp_ms=int(timestamp) if timestamp else None,
        group=_at(fields, 8),
    )


def _read_end_transaction(fields: Sequence[str]) -> EndTransactionTrace:
    return EndTransactionTrace(
        timestamp_ms=int(fields[1]),
        region_id=fields[2],
        group=fields[3],
        topic=fields[4],
        msg_id=fields[5],
        tags=_or_none(fields[6]),
        keys=_or_none(fields[7]),
        store_host=fields[8],
        message_type=MessageType(int(fields[9])),
        transaction_id=_or_none(fields[10]),
        transaction_state=LocalTransactionState[fields[11]],
        from_transaction_check=fields[12].lower() == "true",
    )


_READERS: Mapping[str, Callable[[Sequence[str]], TraceRecord]] = {
    "Pub": _read_pub,
    "SubBefore": _read_sub_before,
    "SubAfter": _read_sub_after,
    "EndTransaction": _read_end_transaction,
}
