"""The spellings of a pull."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import pull
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    pull.PullMessageRequestHeader: (
        "consumer_group, topic, int queue_id, long queue_offset, int max_msg_nums, int sys_flag, long commit_offset, "
        "long suspend_timeout_millis, long sub_version; subscription, expression_type, broker_name:bname"
    ),
    pull.PullMessageResponseHeader: (
        "long suggest_which_broker_id, long next_begin_offset, long min_offset, long max_offset"
    ),
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
