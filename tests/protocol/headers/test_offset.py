"""The spellings of progress and queue bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import offset

CASES = [
    (
        offset.QueryConsumerOffsetRequestHeader(
            consumer_group="consumer group", topic="topic", queue_id=3, broker_name="broker name"
        ),
        {"consumerGroup": "consumer group", "topic": "topic", "queueId": "3", "bname": "broker name"},
        "consumerGroup topic queueId",
    ),
    (offset.QueryConsumerOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        offset.UpdateConsumerOffsetRequestHeader(
            consumer_group="consumer group",
            topic="topic",
            queue_id=3,
            commit_offset=1099511627779,
            broker_name="broker name",
        ),
        {
            "consumerGroup": "consumer group",
            "topic": "topic",
            "queueId": "3",
            "commitOffset": "1099511627779",
            "bname": "broker name",
        },
        "consumerGroup topic queueId commitOffset",
    ),
    (offset.UpdateConsumerOffsetResponseHeader(), {}, ""),
    (
        offset.SearchOffsetRequestHeader(topic="topic", queue_id=2, timestamp=1099511627778, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "timestamp": "1099511627778", "bname": "broker name"},
        "topic queueId timestamp",
    ),
    (offset.SearchOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        offset.GetMaxOffsetRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (offset.GetMaxOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        offset.GetMinOffsetRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (offset.GetMinOffsetResponseHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (
        offset.GetEarliestMsgStoretimeRequestHeader(topic="topic", queue_id=2, broker_name="broker name"),
        {"topic": "topic", "queueId": "2", "bname": "broker name"},
        "topic queueId",
    ),
    (
        offset.GetEarliestMsgStoretimeResponseHeader(timestamp=1099511627776),
        {"timestamp": "1099511627776"},
        "timestamp",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
