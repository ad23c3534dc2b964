"""Names of topics: whether one is legal, and whether it is the broker's own."""

from __future__ import annotations

import pytest

from rocketpy.broker.metadata.topic_names import check_topic_name, is_system_topic
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode


@pytest.mark.parametrize("topic", ["a", "%RETRY%g", "NS%Topic", "A|b-C_0", "x" * 127])
def test_a_legal_name_passes(topic: str) -> None:
    check_topic_name(topic)


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" \t\n", "The specified topic is blank."),
        ("a b", r"The specified topic contains illegal characters, allowing only \^\[%\|a-zA-Z0-9_-\]\+\$"),
        ("a\n", "illegal characters.*: found '.n' in"),
        ("tópico", "illegal characters.*: found 'ó'"),
        ("x" * 128, "longer than topic max length. It has 128 characters, the limit is 127"),
    ],
)
def test_an_illegal_name_is_refused_with_what_is_wrong(topic: str, remark: str) -> None:
    with pytest.raises(RequestError, match=remark) as refusal:
        check_topic_name(topic)
    assert refusal.value.response_code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("topic", ["TBW102", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_any", "RMQ_SYS_TRACE_TOPIC", "mine"])
def test_the_brokers_own_topics_are_known(topic: str) -> None:
    assert is_system_topic(topic, {"mine"})


@pytest.mark.parametrize("topic", ["mine", "RMQ_SYS_anything", "tbw102", "%RETRY%g"])
def test_other_topics_are_not_system_topics(topic: str) -> None:
    assert not is_system_topic(topic)
