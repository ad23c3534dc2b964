"""The spellings of the message path, letter by letter."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.headers import send
from rocketpy.protocol.headers.codec import read_header

CASES = [
    (
        send.SendMessageRequestHeader(
            producer_group="producer group",
            topic="topic",
            default_topic="default topic",
            default_topic_queue_nums=4,
            queue_id=5,
            sys_flag=6,
            born_timestamp=1099511627782,
            flag=8,
            properties="properties",
            reconsume_times=10,
            unit_mode=True,
            batch=True,
            max_reconsume_times=13,
            broker_name="broker name",
        ),
        {
            "producerGroup": "producer group",
            "topic": "topic",
            "defaultTopic": "default topic",
            "defaultTopicQueueNums": "4",
            "queueId": "5",
            "sysFlag": "6",
            "bornTimestamp": "1099511627782",
            "flag": "8",
            "properties": "properties",
            "reconsumeTimes": "10",
            "unitMode": "true",
            "batch": "true",
            "maxReconsumeTimes": "13",
            "bname": "broker name",
        },
        "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag",
    ),
    (
        send.SendMessageRequestHeaderV2(
            producer_group="group",
            topic="T",
            default_topic="default topic",
            default_topic_queue_nums=4,
            queue_id=5,
            sys_flag=6,
            born_timestamp=1099511627782,
            flag=8,
            properties="properties",
            reconsume_times=10,
            unit_mode=True,
            max_reconsume_times=12,
            batch=True,
            broker_name="broker name",
        ),
        {
            "a": "group",
            "b": "T",
            "c": "default topic",
            "d": "4",
            "e": "5",
            "f": "6",
            "g": "1099511627782",
            "h": "8",
            "i": "properties",
            "j": "10",
            "k": "true",
            "l": "12",
            "m": "true",
            "n": "broker name",
        },
        "a b c d e f g h",
    ),
    (
        send.SendMessageResponseHeader(
            msg_id="msg id", queue_id=2, queue_offset=1099511627778, transaction_id="transaction id"
        ),
        {"msgId": "msg id", "queueId": "2", "queueOffset": "1099511627778", "transactionId": "transaction id"},
        "msgId queueId queueOffset",
    ),
    (
        send.ConsumerSendMsgBackRequestHeader(
            offset=1099511627776,
            group="group",
            delay_level=3,
            origin_msg_id="origin msg id",
            origin_topic="origin topic",
            unit_mode=True,
            max_reconsume_times=7,
            broker_name="broker name",
        ),
        {
            "offset": "1099511627776",
            "group": "group",
            "delayLevel": "3",
            "originMsgId": "origin msg id",
            "originTopic": "origin topic",
            "unitMode": "true",
            "maxReconsumeTimes": "7",
            "bname": "broker name",
        },
        "offset group delayLevel",
    ),
    (
        send.EndTransactionRequestHeader(
            producer_group="producer group",
            tran_state_table_offset=1099511627777,
            commit_log_offset=1099511627778,
            commit_or_rollback=8,
            from_transaction_check=True,
            msg_id="msg id",
            transaction_id="transaction id",
            broker_name="broker name",
        ),
        {
            "producerGroup": "producer group",
            "tranStateTableOffset": "1099511627777",
            "commitLogOffset": "1099511627778",
            "commitOrRollback": "8",
            "fromTransactionCheck": "true",
            "msgId": "msg id",
            "transactionId": "transaction id",
            "bname": "broker name",
        },
        "producerGroup tranStateTableOffset commitLogOffset commitOrRollback",
    ),
    (send.EndTransactionResponseHeader(), {}, ""),
    (
        send.CheckTransactionStateRequestHeader(
            tran_state_table_offset=1099511627776,
            commit_log_offset=1099511627777,
            msg_id="msg id",
            transaction_id="transaction id",
            offset_msg_id="offset msg id",
            broker_name="broker name",
        ),
        {
            "tranStateTableOffset": "1099511627776",
            "commitLogOffset": "1099511627777",
            "msgId": "msg id",
            "transactionId": "transaction id",
            "offsetMsgId": "offset msg id",
            "bname": "broker name",
        },
        "tranStateTableOffset commitLogOffset",
    ),
    (
        send.CheckTransactionStateResponseHeader(
            producer_group="producer group",
            tran_state_table_offset=1099511627777,
            commit_log_offset=1099511627778,
            commit_or_rollback=8,
        ),
        {
            "producerGroup": "producer group",
            "tranStateTableOffset": "1099511627777",
            "commitLogOffset": "1099511627778",
            "commitOrRollback": "8",
        },
        "producerGroup tranStateTableOffset commitLogOffset commitOrRollback",
    ),
    (
        send.ReplyMessageRequestHeader(
            producer_group="producer group",
            topic="topic",
            default_topic="default topic",
            default_topic_queue_nums=4,
            queue_id=5,
            sys_flag=6,
            born_timestamp=1099511627782,
            flag=8,
            properties="properties",
            reconsume_times=10,
            unit_mode=True,
            born_host="born host",
            store_host="store host",
            store_timestamp=1099511627789,
        ),
        {
            "producerGroup": "producer group",
            "topic": "topic",
            "defaultTopic": "default topic",
            "defaultTopicQueueNums": "4",
            "queueId": "5",
            "sysFlag": "6",
            "bornTimestamp": "1099511627782",
            "flag": "8",
            "properties": "properties",
            "reconsumeTimes": "10",
            "unitMode": "true",
            "bornHost": "born host",
            "storeHost": "store host",
            "storeTimestamp": "1099511627789",
        },
        "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag"
        " bornHost storeHost storeTimestamp",
    ),
    (send.ResumeCheckHalfMessageRequestHeader(msg_id="msg id"), {"msgId": "msg id"}, ""),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)


def test_short_and_long_names_carry_the_same() -> None:
    short = next(header for header, _, _ in CASES if isinstance(header, send.SendMessageRequestHeaderV2))
    long = short.to_v1()
    assert attrs.asdict(long) == attrs.asdict(short)
    assert send.SendMessageRequestHeaderV2.from_v1(long) == short


@pytest.mark.parametrize("header_class", [send.EndTransactionRequestHeader, send.CheckTransactionStateResponseHeader])
def test_a_transaction_ends_in_one_of_three_ways(header_class: type) -> None:
    fields = next(fields for header, fields, _ in CASES if isinstance(header, header_class))
    for text in ("0", "8", "12"):
        read_header(fields | {"commitOrRollback": text}, header_class)
    with pytest.raises(RequestError, match="commitOrRollback: expected one of 0, 8, 12, found 4"):
        read_header(fields | {"commitOrRollback": "4"}, header_class)
