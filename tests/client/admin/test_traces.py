"""The trace of a message, put together from messages of the trace topic."""

from __future__ import annotations

from rocketpy.client.admin.traces import trace_of
from rocketpy.client.hooks import ConsumeReturnType, MessageType
from rocketpy.client.trace.trace_data import PubTrace, SubAfterTrace, TraceRecord, write_trace
from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageExt

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


def pub(msg_id: str, timestamp_ms: int) -> PubTrace:
    return PubTrace(
        timestamp_ms=timestamp_ms,
        region_id="r",
        group="g",
        topic="T",
        msg_id=msg_id,
        tags=None,
        keys=None,
        store_host="h:1",
        body_length=1,
        cost_time_ms=1,
        message_type=MessageType.NORMAL_MSG,
        offset_msg_id=None,
        is_success=True,
    )


def after(msg_id: str, timestamp_ms: int | None) -> SubAfterTrace:
    return SubAfterTrace(
        request_id="q",
        msg_id=msg_id,
        cost_time_ms=1,
        is_success=True,
        keys=None,
        return_type=ConsumeReturnType.SUCCESS,
        timestamp_ms=timestamp_ms,
        group="g",
    )


def message(*records: TraceRecord, tail: str = "") -> MessageExt:
    body = "".join(map(write_trace, records)) + tail
    return MessageExt(TRACE_TOPIC, body.encode(), born_host="10.0.0.1:5", store_timestamp=500)


def test_the_records_of_one_message_are_in_the_order_of_time() -> None:
    found = trace_of("A", [message(after("A", 300), pub("B", 1)), message(after("A", None), pub("A", 100))], {})
    assert [each.record for each in found.views] == [pub("A", 100), after("A", 300), after("A", None)]
    assert {each.client_host for each in found.views} == {"10.0.0.1"}


def test_the_host_in_a_record_counts_more_than_that_of_its_message() -> None:
    with_host = message(tail=write_trace(pub("A", 1)).replace("\x02", "\x0110.9.9.9\x02"))
    assert [each.client_host for each in trace_of("A", [with_host], {}).views] == ["10.9.9.9"]


def test_a_damaged_message_hides_no_other() -> None:
    failures = {"h:1": ClientError(1, "silent")}
    not_text = MessageExt(TRACE_TOPIC, b"\xff", {"UNIQ_KEY": "Y"}, born_host="10.0.0.1:5")
    damaged = message(pub("A", 1), tail="Pub\x01x")
    damaged.properties["UNIQ_KEY"] = "X"
    found = trace_of("A", [damaged, not_text, message(pub("A", 2))], failures)
    assert [each.record for each in found.views] == [pub("A", 2)]
    assert [each[0] for each in found.unreadable] == ["X", "Y"]
    assert found.failures == failures
