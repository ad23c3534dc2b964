"""The spellings of progress."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import offset
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    offset.QueryConsumerOffsetRequestHeader: "consumer_group, topic, int queue_id; broker_name:bname",
    offset.QueryConsumerOffsetResponseHeader: "long offset",
    offset.UpdateConsumerOffsetRequestHeader: (
        "consumer_group, topic, int queue_id, long commit_offset; broker_name:bname, "
        "boolean is_brought_home:broughtHome, long committed_ago"
    ),
    offset.UpdateConsumerOffsetResponseHeader: "; boolean is_revoked:revoked",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
