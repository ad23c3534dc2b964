"""The trace of a message, put together from messages of the trace topic."""

from __future__ import annotations

from rocketpy.client.admin.traces import TRACE_BODY_MAX, trace_of
from rocketpy.client.trace.trace_data import TraceRecord, write_trace
from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageExt
from tests.client.trace.records import after, pub

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


def message(*records: TraceRecord, tail: str = "") -> MessageExt:
    body = "".join(map(write_trace, records)) + tail
    return MessageExt(TRACE_TOPIC, body.encode(), born_host="10.0.0.1:5", store_timestamp=500)


def test_the_records_of_one_message_are_in_the_order_of_time() -> None:
    sent, handled = pub(msg_id="A", timestamp_ms=100), after(msg_id="A", timestamp_ms=300)
    untimed, other = after(msg_id="A", timestamp_ms=None), pub(msg_id="B", timestamp_ms=1)
    found = trace_of("A", [message(handled, other), message(untimed, sent)], {})
    assert [each.record for each in found.views] == [sent, handled, untimed]
    assert {each.client_host for each in found.views} == {"10.0.0.1"}


def test_the_host_in_a_record_counts_more_than_that_of_its_message() -> None:
    with_host = message(tail=write_trace(pub(msg_id="A", timestamp_ms=1)).replace("\x02", "\x0110.9.9.9\x02"))
    assert [each.client_host for each in trace_of("A", [with_host], {}).views] == ["10.9.9.9"]


def test_a_damaged_message_hides_no_other() -> None:
    failures = {"h:1": ClientError(1, "silent")}
    not_text = MessageExt(TRACE_TOPIC, b"\xff", {"UNIQ_KEY": "Y"}, born_host="10.0.0.1:5")
    damaged = message(pub(msg_id="A", timestamp_ms=1), tail="Pub\x01x")
    damaged.properties["UNIQ_KEY"] = "X"
    found = trace_of("A", [damaged, not_text, message(pub(msg_id="A", timestamp_ms=2))], failures)
    assert [each.record for each in found.views] == [pub(msg_id="A", timestamp_ms=2)]
    assert [each[0] for each in found.unreadable] == ["X", "Y"]
    assert found.failures == failures


def test_a_message_of_more_records_than_any_is_named() -> None:
    """A compressed one grows to 64 MiB, which would be millions of records."""
    large = MessageExt("RMQ_SYS_TRACE_TOPIC", b"x" * (TRACE_BODY_MAX + 1), {"UNIQ_KEY": "L"})
    found = trace_of("A", [large, message(pub(msg_id="A", timestamp_ms=2))], {})
    assert len(found.views) == 1
    assert found.unreadable == (f"L: expected at most {TRACE_BODY_MAX} bytes of records, found {TRACE_BODY_MAX + 1}",)
