"""Responses to a consumer for each outcome of a pull."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.pull.answers import encode_found_answer, encode_pull_answer, pull_response_code
from rocketpy.broker.pull.request import PullRequest
from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import LanguageCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, decode_frame, encode_frame
from rocketpy.protocol.headers.codec import write_header
from rocketpy.protocol.headers.pull import PullMessageResponseHeader
from rocketpy.store.read.plain_read import PlainRead
from rocketpy.store.results import GetMessageResult, GetMessageStatus
from tests.broker.message_broker import pull_header
from tests.remoting.test_connection import make_connection

CODES = {
    GetMessageStatus.FOUND: (0, 0),
    GetMessageStatus.MESSAGE_WAS_REMOVING: (20, 20),
    GetMessageStatus.NO_MATCHED_MESSAGE: (20, 20),
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE: (19, 21),
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: (19, 21),
    GetMessageStatus.OFFSET_FOUND_NULL: (19, 19),
    GetMessageStatus.OFFSET_OVERFLOW_ONE: (19, 19),
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: (21, 21),
    GetMessageStatus.OFFSET_TOO_SMALL: (21, 21),
}
"""Codes by status, for a pull from offset 0 and from another one."""


def make_pull(opaque: int = 5, serialize_type: SerializeType = SerializeType.JSON) -> PullRequest:
    return PullRequest(
        connection=make_connection()[0],
        opaque=opaque,
        serialize_type=serialize_type,
        is_oneway=False,
        header=pull_header(),
        queue_offset=0,
        message_filter=None,
        group_config=SubscriptionGroupConfig("G"),
        deadline=0.0,
        resume=lambda pull, is_final: True,
    )


def test_every_status_has_its_code() -> None:
    """OFFSET_RESET is in RocketMQ's enumeration and never returned."""
    assert set(CODES) == set(GetMessageStatus) - {GetMessageStatus.OFFSET_RESET}
    for status, (at_zero, elsewhere) in CODES.items():
        assert pull_response_code(status, 0) == at_zero
        assert pull_response_code(status, 7) == pull_response_code(status, -1) == elsewhere


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    offsets=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3),
    broker_id=st.integers(0, 2**31),
    body=st.binary(max_size=40),
)
def test_a_found_answer_written_by_hand_is_what_the_encoder_writes(
    opaque: int, offsets: tuple[int, int, int], broker_id: int, body: bytes
) -> None:
    next_begin, minimum, maximum = offsets
    result = GetMessageResult(GetMessageStatus.FOUND, next_begin, minimum, maximum, body, 1)
    frame = encode_pull_answer(make_pull(opaque), 0, result, broker_id)
    header = PullMessageResponseHeader(
        suggest_which_broker_id=broker_id, next_begin_offset=next_begin, min_offset=minimum, max_offset=maximum
    )
    plain = RemotingCommand(
        code=0,
        remark="FOUND",
        ext_fields=write_header(header),
        body=body,
        flag=1,
        opaque=opaque,
        language=LanguageCode.PYTHON,
    )
    assert frame == encode_frame(plain)
    assert decode_frame(frame).ext_fields == {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(next_begin),
        "minOffset": str(minimum),
        "maxOffset": str(maximum),
    }


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    offsets=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3),
    broker_id=st.integers(0, 2**31),
)
def test_an_answer_without_a_match_written_by_hand_is_what_the_encoder_writes(
    opaque: int, offsets: tuple[int, int, int], broker_id: int
) -> None:
    found = PlainRead(*offsets, b"", 0, 0)
    expected = encode_pull_answer(make_pull(opaque), ResponseCode.PULL_RETRY_IMMEDIATELY, found.result(), broker_id)
    assert encode_found_answer(opaque, found, broker_id) == expected


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("status", CODES)
def test_an_answer_names_the_status_and_carries_the_offsets(
    status: GetMessageStatus, serialize_type: SerializeType
) -> None:
    code = CODES[status][1]
    result = GetMessageResult(status, 11, 3, 20, b"records", 1)
    command = decode_frame(encode_pull_answer(make_pull(9, serialize_type), code, result, 1))
    assert (command.code, command.remark, command.opaque) == (code, status.name, 9)
    assert (command.serialize_type, command.flag) == (serialize_type, 1)
    assert command.body == (b"records" if code == 0 else None)
    assert command.ext_fields == {
        "suggestWhichBrokerId": "1",
        "nextBeginOffset": "11",
        "minOffset": "3",
        "maxOffset": "20",
    }


@pytest.mark.parametrize("serialize_type", list(SerializeType))
def test_an_answer_is_no_longer_than_a_frame(serialize_type: SerializeType) -> None:
    """RocketMQ's client ends a connection that sends it a longer one, and with it all its pulls."""

    def encoded(body_size: int) -> bytes:
        result = GetMessageResult(GetMessageStatus.FOUND, 1, 0, 1, bytes(body_size), 1)
        return encode_pull_answer(make_pull(serialize_type=serialize_type), 0, result, 0)

    most = FRAME_LENGTH_MAX - len(encoded(0))
    assert len(encoded(most)) == FRAME_LENGTH_MAX
    with pytest.raises(LocalProtocolError, match="expected at most 16777216 bytes, found 16777217"):
        encoded(most + 1)
