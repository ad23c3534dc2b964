"""The spellings of the bounds of queues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import queue_bounds

CASES = [
    (
        queue_bounds.SearchOffsetRequestHeader(
            topic="topic", queue_id=2, timestamp=1099511627778, broker_name="broker name"
        ),
        {"topic": "topic", "queueId": "2", "timestamp": "1099511627778", "bname": "broker name"},
        "topic queueId timestamp",
    ),
    (queue_bounds.SearchOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        queue_bounds.GetMaxOffsetRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (queue_bounds.GetMaxOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        queue_bounds.GetMinOffsetRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (queue_bounds.GetMinOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        queue_bounds.GetEarliestMsgStoretimeRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (
        queue_bounds.GetEarliestMsgStoretimeResponseHeader(timestamp=1099511627776),
        {"timestamp": "1099511627776"},
        "timestamp",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
