"""The spellings of progress."""

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
            is_brought_home=True,
        ),
        {
            "consumerGroup": "consumer group",
            "topic": "topic",
            "queueId": "3",
            "commitOffset": "1099511627779",
            "bname": "broker name",
            "broughtHome": "true",
        },
        "consumerGroup topic queueId commitOffset",
    ),
    (offset.UpdateConsumerOffsetResponseHeader(), {}, ""),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
