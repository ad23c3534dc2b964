"""Conversion of delayed messages, and records that are not delayed messages."""

from __future__ import annotations

import pytest

from rocketpy.broker.delay.delayed_message import DelayedMessage, read_delayed_message
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message


def record(born_host: str = "10.0.0.1:7", **properties: str) -> bytes:
    return encode_message(
        MessageExt(
            "SCHEDULE_TOPIC_XXXX",
            b"body",
            properties,
            queue_id=2,
            flag=4,
            sys_flag=1,
            born_timestamp=9,
            born_host=born_host,
            store_host="10.0.0.2:10911",
            reconsume_times=3,
            prepared_transaction_offset=77,
        )
    )


@pytest.mark.parametrize(("born_host", "size"), [("10.0.0.1:7", 8), ("[::1]:7", 20)])
def test_everything_but_topic_and_queue_is_kept(born_host: str, size: int) -> None:
    message = read_delayed_message(
        record(born_host, DELAY="3", REAL_TOPIC="T", REAL_QID="5", TAGS="t", KEYS="a b", UNIQ_KEY="u", WAIT="false")
    )
    assert isinstance(message, DelayedMessage)
    assert (message.topic, message.queue_id, message.body) == ("T", 5, b"body")
    assert message.stored_properties == (
        b"DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x015\x02TAGS\x01t\x02KEYS\x01a b\x02UNIQ_KEY\x01u\x02WAIT\x01false"
    )
    assert (message.tags_code, message.keys) == (tags_code("t"), (b"u", b"a", b"b"))
    assert (message.flag, message.born_timestamp, message.reconsume_times) == (4, 9, 3)
    assert len(message.born_host) == size


def test_the_offsets_of_another_stores_queues_do_not_stay() -> None:
    message = read_delayed_message(
        record(REAL_TOPIC="T", REAL_QID="0", INNER_MULTI_DISPATCH="a", INNER_MULTI_QUEUE_OFFSET="3")
    )
    assert isinstance(message, DelayedMessage)
    assert message.stored_properties == b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02INNER_MULTI_DISPATCH\x01a"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, "REAL_TOPIC is ''"),
        ({"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"}, "REAL_TOPIC is 'RMQ_SYS_TRANS_HALF_TOPIC'"),
        ({"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": "0"}, "REAL_TOPIC is 'SCHEDULE_TOPIC_XXXX'"),
        ({"REAL_TOPIC": "T"}, "REAL_QID is ''"),
        ({"REAL_TOPIC": "T", "REAL_QID": "-1"}, "REAL_QID is '-1'"),
        ({"REAL_TOPIC": "T", "REAL_QID": "2147483648"}, "REAL_QID is '2147483648'"),
        ({"REAL_TOPIC": "T", "REAL_QID": "١"}, "REAL_QID is"),
    ],
)
def test_a_message_without_a_target_says_so(properties: dict[str, str], why: str) -> None:
    message = read_delayed_message(record(**properties))
    assert isinstance(message, DelayedMessage)
    assert why in (message.fault or "")
    assert (message.body, message.queue_id) == (b"body", 0)


def test_a_damaged_body_is_not_given_a_new_checksum() -> None:
    damaged = record(REAL_TOPIC="T", REAL_QID="0").replace(b"body", b"bodx")
    assert "CRC" in str(read_delayed_message(damaged))


def test_a_record_that_is_gone_or_none() -> None:
    assert read_delayed_message(None) == "its record is not in the log any more"
    assert isinstance(read_delayed_message(b"\0" * 200), str)
