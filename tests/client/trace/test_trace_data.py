"""Trace records: the bytes of Java's encoder, its older and newer forms, and what is none of them."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from rocketpy.client.hooks import ConsumeReturnType, MessageType
from rocketpy.client.results import LocalTransactionState
from rocketpy.client.trace.trace_data import (
    PubTrace,
    SubAfterTrace,
    TraceRecord,
    keys_of,
    read_traces,
    write_trace,
)
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.properties import decode_properties
from tests.client.recorded_frames import GOLDEN, recorded_frames
from tests.client.trace.records import ID, ID2, REQUEST_ID, after, before, end, pub

VECTORS = {
    row["name"]: row for row in map(json.loads, (GOLDEN / "traces.jsonl").read_text(encoding="utf-8").splitlines())
}

RECORDS: dict[str, list[TraceRecord]] = {
    "pub": [pub()],
    "pub_half_failed": [
        pub(
            region_id="cn",
            tags=None,
            keys=None,
            body_length=0,
            cost_time_ms=0,
            message_type=MessageType.TRANS_MSG_HALF,
            offset_msg_id=None,
            is_success=False,
        )
    ],
    "pub_delay_unicode": [
        pub(
            timestamp_ms=1,
            group="grün",
            tags="",
            keys="序",
            store_host="[::1]:10911",
            body_length=7,
            cost_time_ms=1,
            message_type=MessageType.DELAY_MSG,
        )
    ],
    "sub_before": [before(), before(msg_id=ID2, retry_times=0, keys=None)],
    "sub_before_no_region": [before(region_id=None)],
    **{f"sub_after_{each.name}": [after(each)] for each in ConsumeReturnType},
    "sub_after_two": [after(cost_time_ms=3), after(cost_time_ms=3, msg_id=ID2, keys=None)],
    **{f"end_{each.name}": [end(each)] for each in LocalTransactionState},
}


@pytest.mark.parametrize("name", VECTORS)
def test_records_are_javas_byte_for_byte_and_read_back(name: str) -> None:
    records, vector = RECORDS[name], VECTORS[name]
    assert "".join(map(write_trace, records)) == vector["text"]
    assert sorted({key for record in records for key in keys_of(record)}) == vector["keys"]
    assert read_traces(vector["text"]) == records


def test_every_vector_is_used() -> None:
    assert RECORDS.keys() == VECTORS.keys()


def test_a_record_that_java_sent_is_read() -> None:
    (frame,) = [
        each.command
        for each in recorded_frames()
        if each.scenario == "trace" and (each.command.ext_fields or {}).get("b") == "RMQ_SYS_TRACE_TOPIC"
    ]
    text = (frame.body or b"").decode()
    (record,) = read_traces(text)
    assert isinstance(record, PubTrace)
    assert write_trace(record) == text
    assert (record.group, record.topic, record.is_success) == ("GoldTraceProducer", "GoldTopic", False)
    keys = decode_properties((frame.ext_fields or {})["i"])["KEYS"]
    assert sorted(keys.split(" ")) == sorted(keys_of(record))


def test_older_and_newer_records_are_read() -> None:
    fields = write_trace(pub()).rstrip("\x02").split("\x01")
    assert read_traces("\x01".join([*fields[:12], "true"])) == [pub(offset_msg_id=None)]
    assert read_traces("\x01".join([*fields, "10.0.0.1"])) == [pub(client_host="10.0.0.1")]
    assert read_traces("\x01".join([*fields, "10.0.0.1", "later"])) == [pub(client_host="10.0.0.1")]
    old = write_trace(after(ConsumeReturnType.FAILED)).split("\x01")
    (record,) = read_traces("\x01".join(old[:6]))
    assert record == SubAfterTrace(
        request_id=REQUEST_ID, msg_id=ID, cost_time_ms=6, is_success=False, keys="k1", timestamp_ms=None, group=None
    )
    with_host = write_trace(before()).replace("\x02", "\x0110.0.0.1\x02")
    assert read_traces(with_host) == [before()]


def test_unknown_types_and_nothing_are_skipped() -> None:
    assert read_traces("") == []
    assert read_traces(f"Recall\x01x\x02{write_trace(pub())}\x02\x02") == [pub()]


@pytest.mark.parametrize("name", VECTORS)
def test_a_record_that_is_cut_is_an_error_or_an_older_form(name: str) -> None:
    """Never anything but the one error, wherever it is cut."""
    text = VECTORS[name]["text"]
    damaged = 0
    for length in range(len(text)):
        with suppress(RemoteProtocolError):
            read_traces(text[:length])
            continue
        damaged += 1
    assert damaged > 5


@pytest.mark.parametrize("damage", ["Pub\x01x", "Pub", "SubBefore\x011\x01r\x01g\x01q\x01id\x01many\x01k"])
def test_a_damaged_record_is_named(damage: str) -> None:
    with pytest.raises(RemoteProtocolError, match="a trace record is damaged"):
        read_traces(write_trace(pub()) + damage)


def test_separators_in_a_value_do_not_end_a_record() -> None:
    assert read_traces(write_trace(pub(tags="a\x01b\x02c"))) == [pub(tags="a b c")]
