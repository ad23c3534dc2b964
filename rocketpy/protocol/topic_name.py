"""Names of topics: the one rule for client and broker, the prefixes that mean something, and the system topics.

Compatibility: ``TopicValidator`` of the broker and ``Validators.checkTopic`` of the client (4.9.8). The beginnings of
the texts are Java's; ours go on to say which character or which length was found.
"""

from __future__ import annotations

import re

TOPIC_LENGTH_MAX = 127
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
AUTO_CREATE_TOPIC_KEY_TOPIC = "TBW102"
"""The template of automatically created topics: standard clients send it as their default topic."""
DELAY_DEAD_LETTER_TOPIC = SYSTEM_TOPIC_PREFIX + "DELAY_DEAD_LETTER"
"""Ours: delayed messages that were due and that the broker can never deliver."""
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
"""Suffix of RocketMQ's remarks about topics and groups that do not exist."""

NOT_ALLOWED_SEND_TOPICS = frozenset(
    (
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        DELAY_DEAD_LETTER_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    )
)
"""Topics of the broker itself that no client may send to."""

SYSTEM_TOPICS = frozenset(
    (
        AUTO_CREATE_TOPIC_KEY_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    )
)
"""``TopicValidator``'s system topics of every broker; those named after cluster and broker are added by the broker."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+\Z")
_ILLEGAL = re.compile(r"[^%|a-zA-Z0-9_-]")
_SHOWN_MAX = 160


def may_be_in_table(topic: str) -> bool:
    """Whether a broker's table of topics may have a name: a legal one, or one that brokers and clusters may have.

    A broker has a topic named after itself and one after its cluster, which RocketMQ does not check; the name of a
    machine has a dot. No request can create such a topic or send to it.
    """
    return topic.isprintable() and "/" not in topic and topic == topic.strip() != ""


def topic_name_fault(topic: str) -> str | None:
    """Return what is wrong with a name, None when nothing is. A legal name costs a single match."""
    if _LEGAL.match(topic) and len(topic) <= TOPIC_LENGTH_MAX:
        return None
    if not topic or topic.isspace():
        return "The specified topic is blank."
    shown = topic if len(topic) <= _SHOWN_MAX else topic[:_SHOWN_MAX] + "..."
    illegal = _ILLEGAL.search(topic)
    if illegal is not None:
        return (
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
            f": found {illegal.group()!r} in {shown!r}"
        )
    return (
        f"The specified topic is longer than topic max length. It has {len(topic)} characters, the limit is "
        f"{TOPIC_LENGTH_MAX}: {shown}"
    )
