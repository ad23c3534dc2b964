"""The spellings of the message path, letter by letter."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.headers import send
from rocketpy.protocol.headers.codec import read_header
from tests.protocol.headers.java_fields import check_fields, header_of

FIELDS: dict[type, str] = {
    send.SendMessageRequestHeader: (
        "producer_group, topic, default_topic, int default_topic_queue_nums, int queue_id, int sys_flag, "
        "long born_timestamp, int flag; properties, int reconsume_times, boolean unit_mode, boolean batch, "
        "int max_reconsume_times, broker_name:bname"
    ),
    send.SendMessageRequestHeaderV2: (
        "producer_group:a, topic:b, default_topic:c, int default_topic_queue_nums:d, int queue_id:e, int sys_flag:f, "
        "long born_timestamp:g, int flag:h; properties:i, int reconsume_times:j, boolean unit_mode:k, "
        "int max_reconsume_times:l, boolean batch:m, broker_name:n"
    ),
    send.SendMessageResponseHeader: "msg_id, int queue_id, long queue_offset; transaction_id",
    send.ConsumerSendMsgBackRequestHeader: (
        "long offset, group, int delay_level; origin_msg_id, origin_topic, boolean unit_mode, "
        "int max_reconsume_times, broker_name:bname"
    ),
    send.EndTransactionRequestHeader: (
        "producer_group, long tran_state_table_offset, long commit_log_offset, int commit_or_rollback=8; "
        "boolean from_transaction_check, msg_id, transaction_id, broker_name:bname"
    ),
    send.EndTransactionResponseHeader: "",
    send.CheckTransactionStateRequestHeader: (
        "long tran_state_table_offset, long commit_log_offset; msg_id, transaction_id, offset_msg_id, broker_name:bname"
    ),
    send.CheckTransactionStateResponseHeader: (
        "producer_group, long tran_state_table_offset, long commit_log_offset, int commit_or_rollback=8"
    ),
    send.ReplyMessageRequestHeader: (
        "producer_group, topic, default_topic, int default_topic_queue_nums, int queue_id, int sys_flag, "
        "long born_timestamp, int flag, born_host, store_host, long store_timestamp; properties, int reconsume_times, "
        "boolean unit_mode"
    ),
    send.ResumeCheckHalfMessageRequestHeader: "; msg_id",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])


def test_short_and_long_names_carry_the_same() -> None:
    short, _ = header_of(send.SendMessageRequestHeaderV2, FIELDS[send.SendMessageRequestHeaderV2])
    assert isinstance(short, send.SendMessageRequestHeaderV2)
    long = short.to_v1()
    assert attrs.asdict(long) == attrs.asdict(short)
    assert send.SendMessageRequestHeaderV2.from_v1(long) == short


@pytest.mark.parametrize("header_class", [send.EndTransactionRequestHeader, send.CheckTransactionStateResponseHeader])
def test_a_transaction_ends_in_one_of_three_ways(header_class: type) -> None:
    _, texts = header_of(header_class, FIELDS[header_class])
    for text in ("0", "8", "12"):
        read_header(texts | {"commitOrRollback": text}, header_class)
    with pytest.raises(RequestError, match="commitOrRollback: expected one of 0, 8, 12, found 4"):
        read_header(texts | {"commitOrRollback": "4"}, header_class)
