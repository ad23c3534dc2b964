"""Op messages: written as RocketMQ does, read from both."""

from __future__ import annotations

import pytest

from rocketpy.broker.transaction.op_message import Op, decode_ops, op_message
from rocketpy.protocol.host import pack_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.protocol.topic_name import TRANS_OP_HALF_TOPIC

HOST = pack_host("127.0.0.1", 10911)


def record(body: bytes, properties: dict[str, str], queue_offset: int = 4) -> bytes:
    return encode_message(MessageExt(TRANS_OP_HALF_TOPIC, body, properties, queue_offset=queue_offset))


def test_an_op_message_is_rocketmq_s() -> None:
    message = op_message(12, None, timestamp_ms=5, host=HOST)
    assert (message.topic, message.queue_id, message.body) == (TRANS_OP_HALF_TOPIC, 0, b"12")
    assert message.properties == {"TAGS": "d", "WAIT": "true"}
    assert (message.born_timestamp, message.born_host, message.sys_flag, message.flag) == (5, HOST, 0, 0)


def test_the_op_message_of_a_copy_names_the_origin() -> None:
    message = op_message(12, 3, timestamp_ms=5, host=HOST)
    assert message.properties == {"TAGS": "d", "WAIT": "true", "TRAN_PREPARED_QUEUE_OFFSET": "3"}
    assert decode_ops(record(message.body, message.properties)) == [Op(4, 12, 3)]


@pytest.mark.parametrize(
    ("body", "tags"), [(b"", "d"), (b"x", "d"), (b"-1", "d"), (b"1" * 20, "d"), (b"1", "e"), (b"1", "dd")]
)
def test_what_is_no_op_message_ends_nothing(body: bytes, tags: str) -> None:
    assert decode_ops(record(body, {"TAGS": tags})) == [Op(4, -1)]


def test_records_are_read_in_their_order() -> None:
    records = record(b"7", {"TAGS": "d"}, 0) + record(b"5", {"TAGS": "d", "WAIT": "true"}, 1)
    assert decode_ops(records) == [Op(0, 7), Op(1, 5)]
    assert decode_ops(b"") == []
