"""Hooks that record the traces of a producer or consumer.

Not traced: what goes to the trace topic or comes from it, and what the broker wants no trace of (``TRACE_ON=false`` in
its answer to a send, or in a message). A send that failed leaves no trace. Groups and topics have no namespace there.

Compatibility: ``SendMessageTraceHookImpl``, ``EndTransactionTraceHookImpl`` and ``ConsumeMessageTraceHookImpl``
(4.9.8). Each message of a batch has a record of its own; Java's has one for the batch, under an id that no message has.
A consumer of the trace topic is not traced, which in Java would have no end; topics whose names begin with that of the
trace topic are, which they are not in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from rocketpy.client.hooks import (
    ConsumeMessageContext,
    EndTransactionContext,
    MessageType,
    SendMessageContext,
)
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.client.trace.trace_data import (
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
)
from rocketpy.clock import Clock
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.namespace import without_namespace
from rocketpy.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_MSG_REGION,
    PROPERTY_TAGS,
    PROPERTY_TRACE_SWITCH,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
)

DEFAULT_TRACE_REGION_ID = "DefaultRegion"


class TraceQueue(Protocol):
    """Receiver of the records of hooks; :class:`~.trace_dispatcher.TraceDispatcher` is one."""

    @property
    def trace_topic(self) -> str:
        """The topic to which the records go."""
        ...

    def append(self, records: Sequence[TraceRecord]) -> bool:
        """Take records; never waits."""
        ...


@attrs.frozen
class SendMessageTraceHook:
    """Records sends, each when its attempt was stored."""

    traces: TraceQueue
    clock: Clock
    hook_name: str = "SendMessageTraceHook"

    def send_message_before(self, context: SendMessageContext) -> None:
        """Nothing: the context says when the attempt began."""

    def send_message_after(self, context: SendMessageContext) -> None:
        """Record an attempt that was stored."""
        result = context.send_result
        if result is None or not result.trace_on or _is_traces_own(self.traces, context.messages[0].topic):
            return
        messages = context.messages
        cost_time_ms = (self.clock.timestamp_ms() - context.begin_timestamp_ms) // len(messages)
        is_single = len(messages) == 1
        ids = [result.offset_msg_id] if is_single else _offset_ids(result, len(messages))
        group = without_namespace(context.producer_group)
        topic = without_namespace(messages[0].topic)
        self.traces.append(
            [
                PubTrace(
                    timestamp_ms=context.begin_timestamp_ms,
                    region_id=result.region_id,
                    group=group,
                    topic=topic,
                    msg_id=message.properties[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX],
                    tags=message.properties.get(PROPERTY_TAGS),
                    keys=message.properties.get(PROPERTY_KEYS),
                    store_host=context.broker_address,
                    body_length=context.body_size if is_single else len(message.body),
                    cost_time_ms=cost_time_ms,
                    message_type=context.message_type,
                    offset_msg_id=offset_msg_id,
                    is_success=result.status is SendStatus.SEND_OK,
                )
                for message, offset_msg_id in zip(messages, ids, strict=True)
            ]
        )


@attrs.frozen
class EndTransactionTraceHook:
    """Records verdicts on transactions."""

    traces: TraceQueue
    clock: Clock
    hook_name: str = "EndTransactionTraceHook"

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Record a verdict."""
        message = context.message
        if _is_traces_own(self.traces, message.topic):
            return
        self.traces.append(
            [
                EndTransactionTrace(
                    timestamp_ms=self.clock.timestamp_ms(),
                    region_id=message.properties.get(PROPERTY_MSG_REGION) or DEFAULT_TRACE_REGION_ID,
                    group=without_namespace(context.producer_group),
                    topic=without_namespace(message.topic),
                    msg_id=context.msg_id,
                    tags=message.properties.get(PROPERTY_TAGS),
                    keys=message.properties.get(PROPERTY_KEYS),
                    store_host=context.broker_address,
                    message_type=MessageType.TRANS_MSG_COMMIT,
                    transaction_id=context.transaction_id,
                    transaction_state=context.transaction_state,
                    from_transaction_check=context.from_transaction_check,
                )
            ]
        )


@attrs.frozen
class _Begun:
    """Values of the beginning of a batch that its end needs."""

    request_id: str
    timestamp_ms: int
    messages: Sequence[MessageExt]


@attrs.define(eq=False)
class ConsumeMessageTraceHook:
    """Records the beginning and the end of each batch; ``new_id`` makes the ids that connect them."""

    traces: TraceQueue
    clock: Clock
    new_id: Callable[[], str]
    hook_name: str = "ConsumeMessageTraceHook"
    _begun: dict[ConsumeMessageContext, _Begun] = attrs.field(init=False, factory=dict)

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        """Record that a handler is given messages."""
        messages = [
            each
            for each in context.messages
            if each.properties.get(PROPERTY_TRACE_SWITCH) != "false" and not _is_traces_own(self.traces, each.topic)
        ]
        if not messages:
            return
        begun = self._begun[context] = _Begun(self.new_id(), self.clock.timestamp_ms(), messages)
        group = without_namespace(context.consumer_group)
        region_id = messages[-1].properties.get(PROPERTY_MSG_REGION)
        self.traces.append(
            [
                SubBeforeTrace(
                    timestamp_ms=begun.timestamp_ms,
                    region_id=region_id,
                    group=group,
                    request_id=begun.request_id,
                    msg_id=message.msg_id,
                    retry_times=message.reconsume_times,
                    keys=message.properties.get(PROPERTY_KEYS),
                )
                for message in messages
            ]
        )

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        """Record how a handler has ended."""
        begun = self._begun.pop(context, None)
        if begun is None:
            return
        now_ms = self.clock.timestamp_ms()
        cost_time_ms = (now_ms - begun.timestamp_ms) // len(context.messages)
        group = without_namespace(context.consumer_group)
        self.traces.append(
            [
                SubAfterTrace(
                    request_id=begun.request_id,
                    msg_id=message.msg_id,
                    cost_time_ms=cost_time_ms,
                    is_success=context.is_success,
                    keys=message.properties.get(PROPERTY_KEYS),
                    return_type=context.return_type,
                    timestamp_ms=now_ms,
                    group=group,
                )
                for message in begun.messages
            ]
        )


def _is_traces_own(traces: TraceQueue, topic: str) -> bool:
    """Whether messages of a topic are traces themselves."""
    return topic == traces.trace_topic


def _offset_ids(result: SendResult, count: int) -> list[str | None]:
    """Return the offset id of each message of a batch; of none where the broker names another number of them."""
    ids: list[str | None] = [*result.offset_msg_id.split(",")]
    return ids if len(ids) == count else [None] * count
