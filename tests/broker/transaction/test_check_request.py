"""The check request: equal to Java's byte for byte, and none for a record without a target."""

from __future__ import annotations

import gzip
import json

import attrs
import pytest

from rocketpy.broker.transaction.check_request import check_request
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import COMPRESSED_FLAG
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from tests.broker.test_golden_frames import FRAMES


def java_questions() -> list[RemotingCommand]:
    with gzip.open(FRAMES, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    found = [
        decode_frame(bytes.fromhex(row["frame_hex"]))
        for row in rows
        if row["code"] == RequestCode.CHECK_TRANSACTION_STATE and row["kind"] != "response"
    ]
    assert found
    return found


def half(**changes: object) -> MessageExt:
    """A record of the half topic."""
    properties = {"REAL_TOPIC": "T", "REAL_QID": "3", "UNIQ_KEY": "K", "PGROUP": "P"}
    message = MessageExt(
        TRANS_HALF_TOPIC, b"body", properties, 0, 5, 11, 1300, 0, 7, "10.0.0.1:4000", 8, "10.0.0.2:10911", 2
    )
    return attrs.evolve(message, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("java", java_questions())
def test_our_question_is_java_s_to_the_byte(java: RemotingCommand) -> None:
    header = read_header(java, CheckTransactionStateRequestHeader)
    assert java.body is not None
    record = attrs.evolve(
        decode_message(java.body, decompress=False),
        topic=TRANS_HALF_TOPIC,
        queue_id=0,
        queue_offset=header.tran_state_table_offset,
        physical_offset=header.commit_log_offset,
    )
    ours = check_request(record)
    assert ours is not None
    assert (ours.code, ours.is_oneway) == (java.code, java.is_oneway)
    assert ours.body == java.body
    asked = {name: value for name, value in (java.ext_fields or {}).items() if name not in ("AccessKey", "Signature")}
    assert ours.ext_fields == asked


def test_the_message_is_shown_as_it_would_be_delivered() -> None:
    record = half()
    request = check_request(record)
    assert request is not None
    assert request.body is not None
    shown = decode_message(request.body, decompress=False)
    assert (shown.topic, shown.queue_id) == ("T", 3)
    assert (record.topic, record.queue_id) == (TRANS_HALF_TOPIC, 0), "the record itself stays what it is"
    assert (shown.queue_offset, shown.physical_offset) == (11, 1300)


def test_a_compressed_body_goes_as_it_is_stored() -> None:
    """The producer's client unpacks it; to do that twice would break it."""
    request = check_request(half(body=b"\x78\x9c not really", sys_flag=COMPRESSED_FLAG))
    assert request is not None
    assert request.body is not None
    shown = decode_message(request.body, decompress=False)
    assert (shown.body, shown.sys_flag) == (b"\x78\x9c not really", COMPRESSED_FLAG)


def test_a_message_without_a_unique_key_is_asked_about_by_its_offset_id() -> None:
    request = check_request(half(properties={"REAL_TOPIC": "T", "REAL_QID": "3"}))
    assert request is not None
    header = read_header(request, CheckTransactionStateRequestHeader)
    assert (header.msg_id, header.transaction_id) == (None, None)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (11, 1300)
    assert header.offset_msg_id == "0A00000200002A9F0000000000000514"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_QID": "3"},
        {"REAL_TOPIC": "", "REAL_QID": "3"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
    ],
)
def test_there_is_no_check_request_for_a_record_without_a_target(properties: dict[str, str]) -> None:
    assert check_request(half(properties=properties)) is None
