"""The check request: equal to Java's byte for byte, and none for a record without a target."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.transaction.check_request import check_request
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from tests.broker.test_golden_frames import recorded_requests


@pytest.mark.parametrize("java", [each for _, each in recorded_requests(RequestCode.CHECK_TRANSACTION_STATE)])
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


def test_a_message_without_a_unique_key_is_asked_about_by_its_offset_id() -> None:
    record = MessageExt(TRANS_HALF_TOPIC, b"body", {"REAL_TOPIC": "T", "REAL_QID": "3"}, queue_offset=11,
                        physical_offset=1300, store_host="10.0.0.2:10911")  # fmt: skip
    request = check_request(record)
    assert request is not None
    header = read_header(request, CheckTransactionStateRequestHeader)
    assert (header.msg_id, header.transaction_id) == (None, None)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (11, 1300)
    assert header.offset_msg_id == "0A00000200002A9F0000000000000514"
