"""The spellings of look-ups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import query

CASES = [
    (
        query.QueryMessageRequestHeader(
            topic="topic", key="key", max_num=3, begin_timestamp=1099511627779, end_timestamp=1099511627780
        ),
        {
            "topic": "topic",
            "key": "key",
            "maxNum": "3",
            "beginTimestamp": "1099511627779",
            "endTimestamp": "1099511627780",
        },
        "topic key maxNum beginTimestamp endTimestamp",
    ),
    (
        query.QueryMessageResponseHeader(
            index_last_update_timestamp=1099511627776, index_last_update_phyoffset=1099511627777
        ),
        {"indexLastUpdateTimestamp": "1099511627776", "indexLastUpdatePhyoffset": "1099511627777"},
        "indexLastUpdateTimestamp indexLastUpdatePhyoffset",
    ),
    (query.ViewMessageRequestHeader(offset=1099511627776), {"offset": "1099511627776"}, "offset"),
    (query.ViewMessageResponseHeader(), {}, ""),
    (
        query.QueryConsumeQueueRequestHeader(
            topic="topic", queue_id=2, index=1099511627778, count=4, consumer_group="consumer group"
        ),
        {"topic": "topic", "queueId": "2", "index": "1099511627778", "count": "4", "consumerGroup": "consumer group"},
        "topic queueId index count",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
