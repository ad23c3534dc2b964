"""Half messages: what is written for them, and how they come back."""

from __future__ import annotations

import pytest

from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.broker.transaction.half_message import (
    COPY_RESERVE,
    PROPERTY_ACCOUNT,
    copied,
    half_message,
    named_origin,
    origin_of,
    real_queue,
    restored,
)
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.host import pack_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX, encode_properties
from rocketpy.protocol.sysflag import COMPRESSED_FLAG, TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC

HOST = pack_host("10.0.0.1", 4000)
ORIGIN = "TRAN_PREPARED_QUEUE_OFFSET"


def sent(**properties: str) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic="T",
        queue_id=3,
        body=b"b",
        properties={"TRAN_MSG": "true", **properties},
        flag=5,
        sys_flag=COMPRESSED_FLAG | TRANSACTION_PREPARED_TYPE,
        born_timestamp=7,
        born_host=HOST,
        reconsume_times=2,
    )


def stored(message: MessageExtBrokerInner, *, queue_offset: int = 11, physical_offset: int = 1300) -> MessageExt:
    return MessageExt(
        message.topic,
        message.body,
        dict(message.properties),
        message.queue_id,
        message.flag,
        queue_offset,
        physical_offset,
        message.sys_flag,
        message.born_timestamp,
        "10.0.0.1:4000",
        8,
        "10.0.0.2:10911",
        message.reconsume_times,
    )


def test_a_half_message_says_where_it_is_to_go() -> None:
    message = sent(TAGS="t")
    half_message(message)
    assert (message.topic, message.queue_id, message.sys_flag) == (TRANS_HALF_TOPIC, 0, COMPRESSED_FLAG)
    assert message.properties == {"TRAN_MSG": "true", "TAGS": "t", "REAL_TOPIC": "T", "REAL_QID": "3"}
    assert (message.body, message.flag, message.born_host, message.reconsume_times) == (b"b", 5, HOST, 2)


def test_whose_a_half_message_is_stays_with_its_copies_and_not_with_what_is_delivered() -> None:
    message = sent(**{PROPERTY_ACCOUNT: "the-owner"})
    half_message(message)
    half = stored(message)
    assert copied(half).properties[PROPERTY_ACCOUNT] == "the-owner"
    assert PROPERTY_ACCOUNT not in restored(half).properties
    assert half.properties[PROPERTY_ACCOUNT] == "the-owner"


def test_properties_must_leave_room_for_those_of_the_copies() -> None:
    fits = sent()
    half_message(fits)
    room = PROPERTIES_SIZE_MAX - COPY_RESERVE - len(encode_properties(fits.properties)) - len("\x02X\x01")
    for size, is_taken in ((room, True), (room + 1, False)):
        message = sent(X="x" * size)
        if is_taken:
            half_message(message)
            half = stored(message, queue_offset=10**17)
            copy = copied(half)
            copy.properties["TRANSACTION_CHECK_TIMES"] = "9999999999"
            assert len(encode_properties(copy.properties)) <= PROPERTIES_SIZE_MAX
        else:
            with pytest.raises(RequestError, match="the limit is 32639") as refused:
                half_message(message)
            assert refused.value.response_code == ResponseCode.MESSAGE_ILLEGAL


def test_restored_is_what_was_sent_with_the_bits_of_a_commit() -> None:
    message = sent(TAGS="t")
    half_message(message)
    back = restored(stored(message))
    assert (back.topic, back.queue_id) == ("T", 3)
    assert back.sys_flag == COMPRESSED_FLAG | TRANSACTION_COMMIT_TYPE
    assert back.prepared_transaction_offset == 1300
    assert (back.body, back.flag, back.born_timestamp, back.born_host, back.reconsume_times) == (b"b", 5, 7, HOST, 2)


def test_a_copy_names_its_origin_and_so_do_copies_of_it() -> None:
    message = sent()
    half_message(message)
    half = stored(message)
    assert (origin_of(half), named_origin(half)) == (11, None)
    copy = copied(half)
    assert copy.properties == {**half.properties, ORIGIN: "11"}
    assert (copy.topic, copy.queue_id, copy.prepared_transaction_offset) == (TRANS_HALF_TOPIC, 0, 0)
    second = copied(stored(copy, queue_offset=20), topic=TRANS_CHECK_MAX_TIME_TOPIC)
    assert (second.topic, second.properties[ORIGIN]) == (TRANS_CHECK_MAX_TIME_TOPIC, "11")


@pytest.mark.parametrize("text", ["", "-1", "x", "1" * 19, "٣", "1.0"])
def test_an_origin_that_is_no_offset_counts_for_nothing(text: str) -> None:
    half = stored(sent())
    half.properties[ORIGIN] = text
    assert origin_of(half) == 11


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, "expected REAL_TOPIC, found none"),
        ({"REAL_TOPIC": "T"}, "expected REAL_QID from 0 to 2147483647, found ''"),
        ({"REAL_TOPIC": "T", "REAL_QID": "-1"}, "found '-1'"),
        ({"REAL_TOPIC": "T", "REAL_QID": "2147483648"}, "found '2147483648'"),
        ({"REAL_TOPIC": "T", "REAL_QID": "9" * 5000}, "found"),
    ],
)
def test_a_half_message_without_a_target_says_so(properties: dict[str, str], found: str) -> None:
    half = stored(sent())
    half.properties = properties
    with pytest.raises(ValueError, match=found) as refused:
        real_queue(half)
    assert "half message at 1300" in str(refused.value)
