"""Responses to producers for each outcome, in both header forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.send.answers import Receipt, SendAnswers
from rocketpy.protocol.codes import SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame
from rocketpy.protocol.host import pack_host
from rocketpy.store.results import PutMessageStatus
from tests.broker.send.sending import EXTRA


def make_answers(host: str = "127.0.0.1", region: str = "DefaultRegion", *, trace_on: bool = True) -> SendAnswers:
    return SendAnswers(
        region_id=region, trace_on=trace_on, store_host=pack_host(host, 10911), message_size_max=4_194_304
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("region", ["DefaultRegion", 'a"},"flag":9,"opaque":0,"', "50% %d %%", "ü\\\x01"])
@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    physical_offset=st.integers(0, 2**63 - 1),
    queue_id=st.integers(0, 2**31 - 1),
    queue_offset=st.integers(0, 2**63 - 1),
)
def test_the_success_written_by_hand_is_what_the_encoder_writes(
    host: str, region: str, opaque: int, physical_offset: int, queue_id: int, queue_offset: int
) -> None:
    answers = make_answers(host, region, trace_on=False)
    receipt = Receipt(opaque, SerializeType.JSON, answers.msg_id(physical_offset), queue_id, queue_offset)
    frame = answers.success(opaque, physical_offset, queue_id, queue_offset)
    assert frame == answers.stored(receipt, PutMessageStatus.PUT_OK)
    command = decode_frame(frame)
    assert command.ext_fields == {
        "MSG_REGION": region,
        "TRACE_ON": "false",
        "msgId": answers.msg_id(physical_offset),
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    assert (command.code, command.opaque, command.remark, command.is_response) == (0, opaque, None, True)


def test_a_message_id_is_the_brokers_address_and_the_physical_offset() -> None:
    assert make_answers().msg_id(0x1A2B) == "7F00000100002A9F0000000000001A2B"
    assert make_answers("::1").msg_id(1) == "0" * 31 + "1" + "00002A9F" + "0" * 15 + "1"


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutMessageStatus.PUT_OK, 0),
        (PutMessageStatus.FLUSH_DISK_TIMEOUT, 10),
        (PutMessageStatus.FLUSH_SLAVE_TIMEOUT, 12),
        (PutMessageStatus.SLAVE_NOT_AVAILABLE, 11),
    ],
)
def test_a_stored_message_is_answered_with_its_offsets_under_every_status(
    status: PutMessageStatus, code: int, serialize_type: SerializeType
) -> None:
    command = decode_frame(make_answers().stored(Receipt(5, serialize_type, "ID", 2, 77), status))
    assert (command.code, command.opaque, command.serialize_type) == (code, 5, serialize_type)
    assert command.remark is None
    assert command.ext_fields == EXTRA | {"msgId": "ID", "queueId": "2", "queueOffset": "77"}


TOO_MANY_LIGHT_QUEUES = (
    "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num exceed "
    "maxLmqConsumeQueueNum config num, default limit 2w."
)


@pytest.mark.parametrize(
    ("status", "code", "remark"),
    [
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, 1, "create mapped file failed, server is busy or broken."),
        (PutMessageStatus.OS_PAGECACHE_BUSY, 1, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"),
        (PutMessageStatus.UNKNOWN_ERROR, 1, "UNKNOWN_ERROR"),
        (PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, 1, TOO_MANY_LIGHT_QUEUES),
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, 14, "service not available now: no space in /store"),
    ],
)
def test_what_is_not_stored_says_why(status: PutMessageStatus, code: int, remark: str) -> None:
    answers = make_answers()
    assert answers.refusal(status, why="no space in /store", body=b"", properties=b"") == (code, remark)
    if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
        ends = "service not available now: the message store is shutting down"
        assert answers.refusal(status, why=None, body=b"", properties=b"") == (code, ends)


@pytest.mark.parametrize("status", [PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED])
def test_the_remark_for_an_illegal_message_has_limits_and_sizes(status: PutMessageStatus) -> None:
    answers = make_answers()
    java = (
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, "
        "msg properties length limit 32KB."
    )
    code, remark = answers.refusal(status, why="the disk is full", body=b"x" * 10, properties=b"y" * 40_000)
    assert (code, remark) == (13, f"{java} Found a body of 10B and properties of 40000B")
    assert answers.refusal(status, why=None, body=b"", properties=b"\0")[1] == (
        f"{java} Found a body of 0B and properties of 1B, with a NUL among them"
    )


@pytest.mark.parametrize("serialize_type", list(SerializeType))
def test_a_refusal_carries_region_and_trace_switch_too(serialize_type: SerializeType) -> None:
    """The Java client dereferences them in every response."""
    request = RemotingCommand(code=310, opaque=3, serialize_type=serialize_type)
    answer = make_answers().refused(request, 17, "no such topic")
    assert (answer.code, answer.remark, answer.opaque) == (17, "no such topic", 3)
    assert (answer.flag, answer.serialize_type, answer.ext_fields) == (1, serialize_type, EXTRA)
