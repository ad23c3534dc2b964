"""The spellings of topic administration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.headers import topic
from rocketpy.protocol.headers.codec import read_header

CASES = [
    (
        topic.CreateTopicRequestHeader(
            topic="topic",
            default_topic="default topic",
            read_queue_nums=3,
            write_queue_nums=4,
            perm=5,
            topic_filter_type="MULTI_TAG",
            topic_sys_flag=7,
            order=True,
        ),
        {
            "topic": "topic",
            "defaultTopic": "default topic",
            "readQueueNums": "3",
            "writeQueueNums": "4",
            "perm": "5",
            "topicFilterType": "MULTI_TAG",
            "topicSysFlag": "7",
            "order": "true",
        },
        "topic readQueueNums writeQueueNums perm topicFilterType",
    ),
    (topic.DeleteTopicRequestHeader(topic="topic"), {"topic": "topic"}, "topic"),
    (topic.GetAllTopicConfigResponseHeader(), {}, ""),
    (topic.GetTopicStatsInfoRequestHeader(topic="topic"), {"topic": "topic"}, "topic"),
    (topic.QueryTopicConsumeByWhoRequestHeader(topic="topic"), {"topic": "topic"}, "topic"),
    (
        topic.QueryConsumeTimeSpanRequestHeader(topic="topic", group="group"),
        {"topic": "topic", "group": "group"},
        "topic group",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)


def test_a_topic_is_created_with_a_known_filter_type() -> None:
    fields = {"topic": "T", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    assert not read_header(fields, topic.CreateTopicRequestHeader).order
    with pytest.raises(RequestError, match="topicFilterType: expected one of SINGLE_TAG, MULTI_TAG, found NO_TAG"):
        read_header(fields | {"topicFilterType": "NO_TAG"}, topic.CreateTopicRequestHeader)
