"""The spellings of the bounds of queues."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import queue_bounds
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    queue_bounds.SearchOffsetRequestHeader: "topic, int queue_id, long timestamp; broker_name:bname",
    queue_bounds.SearchOffsetResponseHeader: "long offset",
    queue_bounds.GetMaxOffsetRequestHeader: "topic, int queue_id; broker_name:bname",
    queue_bounds.GetMaxOffsetResponseHeader: "long offset",
    queue_bounds.GetMinOffsetRequestHeader: "topic, int queue_id; broker_name:bname",
    queue_bounds.GetMinOffsetResponseHeader: "long offset",
    queue_bounds.GetEarliestMsgStoretimeRequestHeader: "topic, int queue_id; broker_name:bname",
    queue_bounds.GetEarliestMsgStoretimeResponseHeader: "long timestamp",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
