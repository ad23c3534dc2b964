"""Validation of topic names, and the names of system topics.

Compatibility: ``TopicValidator`` (4.9.8). In Java the set of system topics is global; here the topics named after
cluster and broker belong to one broker.
"""

from __future__ import annotations

from collections.abc import Container

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS, topic_name_fault


def check_topic_name(topic: str) -> None:
    """Raise RequestError(SYSTEM_ERROR) unless ``topic`` is a legal name."""
    fault = topic_name_fault(topic)
    if fault is not None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, fault)


def is_system_topic(topic: str, broker_topics: Container[str] = ()) -> bool:
    """Whether ``topic`` is a system topic; ``broker_topics`` are the additional ones of one broker."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in broker_topics
