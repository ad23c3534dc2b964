"""The trace of one message: what producers and consumers have recorded of it, in the order of time.

Compatibility: ``TraceView`` and ``queryMsgTraceById`` (4.9.8). The beginnings of handlers and the verdicts on
transactions are there as well, which Java's command leaves out; a damaged record hides no other message of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketpy.client.trace.trace_data import PubTrace, TraceRecord, read_traces
from rocketpy.errors import RemoteProtocolError, RocketpyError
from rocketpy.protocol.host import host_of
from rocketpy.protocol.message import MessageExt


@attrs.frozen
class TraceView:
    """One record; ``client_host`` is the address of the client that has made it."""

    record: TraceRecord
    client_host: str


@attrs.frozen(kw_only=True)
class MessageTrace:
    """What is known of a message.

    ``unreadable`` says what is wrong with messages of the trace topic that could not be read; ``failures`` has the
    brokers that did not answer.
    """

    msg_id: str
    views: tuple[TraceView, ...]
    unreadable: tuple[str, ...] = ()
    failures: dict[str, RocketpyError] = attrs.field(factory=dict)


TRACE_BODY_MAX = 4 << 20
"""Bound of the records in one message of the trace topic, as of any message before compression; clients send 128 KB."""


def trace_of(msg_id: str, messages: Iterable[MessageExt], failures: dict[str, RocketpyError]) -> MessageTrace:
    """Return what messages of the trace topic say of one message."""
    found: list[tuple[int, TraceView]] = []
    unreadable = []
    for message in messages:
        try:
            records = read_traces(_text_of(message))
        except (RemoteProtocolError, UnicodeDecodeError) as failure:
            unreadable.append(f"{message.msg_id}: {failure}")
            continue
        for record in records:
            if record.msg_id == msg_id:
                named = record.client_host if isinstance(record, PubTrace) else None
                timestamp_ms = message.store_timestamp if record.timestamp_ms is None else record.timestamp_ms
                found.append((timestamp_ms, TraceView(record, named or host_of(message.born_host))))
    found.sort(key=lambda each: each[0])
    return MessageTrace(
        msg_id=msg_id,
        views=tuple(view for _, view in found),
        unreadable=tuple(unreadable),
        failures=failures,
    )


def _text_of(message: MessageExt) -> str:
    if len(message.body) > TRACE_BODY_MAX:
        raise RemoteProtocolError(f"expected at most {TRACE_BODY_MAX} bytes of records, found {len(message.body)}")
    return message.body.decode()
