"""The spellings of topic administration."""

from __future__ import annotations

import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.headers import topic
from rocketpy.protocol.headers.codec import read_header
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    topic.CreateTopicRequestHeader: (
        "topic, int read_queue_nums, int write_queue_nums, int perm, topic_filter_type=MULTI_TAG; default_topic, "
        "int topic_sys_flag, boolean order"
    ),
    topic.DeleteTopicRequestHeader: "topic",
    topic.GetAllTopicConfigResponseHeader: "",
    topic.GetTopicStatsInfoRequestHeader: "topic",
    topic.QueryTopicConsumeByWhoRequestHeader: "topic",
    topic.QueryConsumeTimeSpanRequestHeader: "topic, group",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])


def test_a_topic_is_created_with_a_known_filter_type() -> None:
    fields = {"topic": "T", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    assert not read_header(fields, topic.CreateTopicRequestHeader).order
    with pytest.raises(RequestError, match="topicFilterType: expected one of SINGLE_TAG, MULTI_TAG, found NO_TAG"):
        read_header(fields | {"topicFilterType": "NO_TAG"}, topic.CreateTopicRequestHeader)
