"""The spellings of look-ups."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import query
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    query.QueryMessageRequestHeader: "topic, key, int max_num, long begin_timestamp, long end_timestamp",
    query.QueryMessageResponseHeader: "long index_last_update_timestamp, long index_last_update_phyoffset",
    query.ViewMessageRequestHeader: "long offset",
    query.ViewMessageResponseHeader: "",
    query.QueryConsumeQueueRequestHeader: "topic, int queue_id, long index, int count; consumer_group",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
