"""Trace hooks: which records they make of what they are shown, and of what they make none."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.client.hooks import (
    CommunicationMode,
    ConsumeMessageContext,
    ConsumeReturnType,
    EndTransactionContext,
    MessageType,
    SendMessageContext,
)
from rocketpy.client.results import LocalTransactionState, SendResult, SendStatus
from rocketpy.client.trace.trace_data import (
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
)
from rocketpy.client.trace.trace_hooks import ConsumeMessageTraceHook, EndTransactionTraceHook, SendMessageTraceHook
from rocketpy.protocol.message import Message, MessageExt, MessageQueue

QUEUE = MessageQueue("NS%T", "b", 0)


class Hands:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000

    def timestamp_ms(self) -> int:
        return self.now


class Traces:
    """A queue without a service."""

    trace_topic = "RMQ_SYS_TRACE_TOPIC"

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def append(self, records: Sequence[TraceRecord]) -> bool:
        self.records += records
        return True


RESULT = SendResult(SendStatus.SEND_OK, "A,B", "OFF_A,OFF_B", QUEUE, 7, "region")


def sent(*messages: Message, **changes: object) -> SendMessageContext:
    context = SendMessageContext(
        producer_group="NS%g",
        messages=messages,
        message_queue=QUEUE,
        broker_address="127.0.0.1:10911",
        communication_mode=CommunicationMode.SYNC,
        message_type=MessageType.NORMAL_MSG,
        body_size=3,
        born_host="127.0.0.1",
        begin_timestamp_ms=900,
        send_result=RESULT,
    )
    for name, value in changes.items():
        setattr(context, name, value)
    return context


def records_of_send(context: SendMessageContext) -> list[TraceRecord]:
    traces = Traces()
    hook = SendMessageTraceHook(traces, Hands())
    hook.send_message_before(context)
    hook.send_message_after(context)
    return traces.records


def test_each_message_of_a_batch_has_a_record() -> None:
    first = Message("T", b"12", {"UNIQ_KEY": "A", "TAGS": "t", "KEYS": "k"})
    second = Message("T", b"3", {"UNIQ_KEY": "B"})
    record = PubTrace(
        timestamp_ms=900,
        region_id="region",
        group="g",
        topic="T",
        msg_id="A",
        tags="t",
        keys="k",
        store_host="127.0.0.1:10911",
        body_length=2,
        cost_time_ms=50,
        message_type=MessageType.NORMAL_MSG,
        offset_msg_id="OFF_A",
        is_success=True,
    )
    assert records_of_send(sent(first, second)) == [
        record,
        attrs.evolve(record, msg_id="B", offset_msg_id="OFF_B", tags=None, keys=None, body_length=1),
    ]


def test_a_single_message_has_the_length_that_travelled() -> None:
    message = Message("NS%T", b"much longer before its compression", {"UNIQ_KEY": "A"})
    result = attrs.evolve(RESULT, status=SendStatus.FLUSH_DISK_TIMEOUT, offset_msg_id="OFF")
    (record,) = records_of_send(sent(message, send_result=result))
    assert isinstance(record, PubTrace)
    assert (record.topic, record.body_length, record.offset_msg_id, record.is_success) == ("T", 3, "OFF", False)


def test_a_broker_that_names_too_few_ids_costs_no_record() -> None:
    messages = [Message("T", b"1", {"UNIQ_KEY": each}) for each in "ABC"]
    records = records_of_send(sent(*messages))
    assert [each.offset_msg_id for each in records if isinstance(each, PubTrace)] == [None] * 3


def test_what_is_not_stored_not_wanted_or_a_trace_itself_has_no_record() -> None:
    message = Message("T", b"1", {"UNIQ_KEY": "A"})
    assert records_of_send(sent(message, send_result=None, exception=ValueError())) == []
    assert records_of_send(sent(message, send_result=attrs.evolve(RESULT, trace_on=False))) == []
    assert records_of_send(sent(Message("RMQ_SYS_TRACE_TOPIC", b"1", {"UNIQ_KEY": "A"}))) == []


def test_a_topic_whose_name_begins_with_that_of_the_trace_topic_is_traced() -> None:
    assert len(records_of_send(sent(Message("RMQ_SYS_TRACE_TOPIC_OF_MINE", b"1", {"UNIQ_KEY": "A"})))) == 1


def test_a_verdict_has_a_record() -> None:
    traces = Traces()
    hook = EndTransactionTraceHook(traces, Hands())
    context = EndTransactionContext(
        producer_group="NS%g",
        message=Message("T", b"x", {"TAGS": "t", "KEYS": "k"}),
        broker_address="127.0.0.1:10911",
        msg_id="A",
        transaction_id="A",
        transaction_state=LocalTransactionState.ROLLBACK_MESSAGE,
        from_transaction_check=False,
    )
    hook.end_transaction(context)
    checked = MessageExt("T", b"x", {"MSG_REGION": "region"})
    hook.end_transaction(attrs.evolve(context, message=checked, from_transaction_check=True))
    hook.end_transaction(attrs.evolve(context, message=Message("RMQ_SYS_TRACE_TOPIC", b"x")))
    first = EndTransactionTrace(
        timestamp_ms=1000,
        region_id="DefaultRegion",
        group="g",
        topic="T",
        msg_id="A",
        tags="t",
        keys="k",
        store_host="127.0.0.1:10911",
        message_type=MessageType.TRANS_MSG_COMMIT,
        transaction_id="A",
        transaction_state=LocalTransactionState.ROLLBACK_MESSAGE,
        from_transaction_check=False,
    )
    again = attrs.evolve(first, region_id="region", tags=None, keys=None, from_transaction_check=True)
    assert traces.records == [first, again]


def consumed(*messages: MessageExt) -> ConsumeMessageContext:
    return ConsumeMessageContext(consumer_group="NS%g", messages=messages, message_queue=QUEUE)


def test_a_batch_has_records_of_its_beginning_and_its_end() -> None:
    traces, clock = Traces(), Hands()
    hook = ConsumeMessageTraceHook(traces, clock, iter(["first", "second"]).__next__)
    context = consumed(
        MessageExt("T", b"1", {"UNIQ_KEY": "A", "KEYS": "k", "MSG_REGION": "region"}, reconsume_times=2),
        MessageExt("T", b"2", {"UNIQ_KEY": "B", "TRACE_ON": "false"}),
    )
    hook.consume_message_before(context)
    clock.now += 61
    context.return_type = ConsumeReturnType.FAILED
    hook.consume_message_after(context)
    hook.consume_message_after(context)
    assert traces.records == [
        SubBeforeTrace(
            timestamp_ms=1000,
            region_id="region",
            group="g",
            request_id="first",
            msg_id="A",
            retry_times=2,
            keys="k",
        ),
        SubAfterTrace(
            request_id="first",
            msg_id="A",
            cost_time_ms=30,
            is_success=False,
            keys="k",
            return_type=ConsumeReturnType.FAILED,
            timestamp_ms=1061,
            group="g",
        ),
    ]


def test_a_batch_without_traced_messages_has_none() -> None:
    traces = Traces()
    hook = ConsumeMessageTraceHook(traces, Hands(), lambda: "id")
    for message in (
        MessageExt("T", b"1", {"TRACE_ON": "false"}),
        MessageExt("RMQ_SYS_TRACE_TOPIC", b"1"),
    ):
        context = consumed(message)
        hook.consume_message_before(context)
        hook.consume_message_after(context)
    assert traces.records == []
