"""Answers to sends."""

from __future__ import annotations

import pytest

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.retry_rules import sync_rules
from rocketpy.client.producer.send_answer import read_send_result, stored_status
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.message import Message, MessageQueue

FIELDS = {"msgId": "0A", "queueId": "2", "queueOffset": "7"}


class Request:
    """As much of a request as the reader looks at."""

    message = Message("T", b"")
    topic = "ns%T"
    msg_id = "unique"


def read(fields: dict[str, str]) -> SendResult:
    delivery = Delivery(Request(), sync_rules(ProducerConfig()))  # type: ignore[arg-type]
    delivery.chosen = MessageQueue("ns%T", "b", 2)
    return read_send_result(delivery, SendStatus.SEND_OK, RemotingCommand(code=0, ext_fields=fields))


def test_the_result_has_the_queue_as_the_program_knows_it() -> None:
    result = read(FIELDS)
    assert result.message_queue == MessageQueue("T", "b", 2)
    assert (result.msg_id, result.offset_msg_id, result.queue_offset) == ("unique", "0A", 7)
    assert (result.region_id, result.transaction_id, result.trace_on) == ("DefaultRegion", None, True)
    assert read({**FIELDS, "queueId": "3"}).message_queue.queue_id == 3


def test_optional_fields_are_read() -> None:
    result = read({**FIELDS, "MSG_REGION": "r", "TRACE_ON": "false", "transactionId": "x"})
    assert (result.region_id, result.trace_on, result.transaction_id) == ("r", False, "x")


@pytest.mark.parametrize(
    "fields",
    [{}, {**FIELDS, "queueId": "two"}, {**FIELDS, "queueOffset": "-1"}, {**FIELDS, "queueId": str(2**31)}],
)
def test_an_answer_without_what_it_must_say_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(RemoteProtocolError):
        read(fields)


def test_what_is_stored_in_part_has_a_status_and_a_refusal_has_none() -> None:
    assert stored_status(RemotingCommand(code=ResponseCode.FLUSH_DISK_TIMEOUT)) is SendStatus.FLUSH_DISK_TIMEOUT
    assert stored_status(RemotingCommand(code=ResponseCode.SUCCESS)) is SendStatus.SEND_OK
    assert stored_status(RemotingCommand(code=ResponseCode.SYSTEM_BUSY)) is None
