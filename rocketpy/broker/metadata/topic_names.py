"""Validation of topic names, and the names of system topics.

Compatibility: ``TopicValidator`` (4.9.8). In Java the set of system topics is global; here the topics named after
cluster and broker belong to one broker.
"""

from __future__ import annotations

from collections.abc import Container

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import SYSTEM_TOPIC_PREFIX, topic_name_fault

AUTO_CREATE_TOPIC_KEY_TOPIC = "TBW102"
"""The template of automatically created topics: standard clients send it as their default topic."""

SYSTEM_TOPICS = frozenset(
    (
        AUTO_CREATE_TOPIC_KEY_TOPIC,
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)
"""System topics of every broker, without those named after its cluster and broker name."""


def check_topic_name(topic: str) -> None:
    """Raise RequestError(SYSTEM_ERROR) unless ``topic`` is a legal name."""
    fault = topic_name_fault(topic)
    if fault is not None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, fault)


def is_system_topic(topic: str, broker_topics: Container[str] = ()) -> bool:
    """Whether ``topic`` is a system topic; ``broker_topics`` are the additional ones of one broker."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in broker_topics
