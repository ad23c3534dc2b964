"""Topics and groups in the log are texts that an operator can read."""

from __future__ import annotations

import logging

import attrs
import pytest

from rocketpy.broker.metadata.config_text import change_texts, config_text, log_put
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig

TOPIC = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, perm=6)
GROUP = SubscriptionGroupConfig(group_name="G")


def test_what_is_set_is_shown_and_a_default_is_not() -> None:
    assert config_text(TOPIC) == "readQueueNums=4 writeQueueNums=4 perm=6"
    assert config_text(attrs.evolve(TOPIC, order=True)) == "readQueueNums=4 writeQueueNums=4 perm=6 order=true"
    assert config_text(GROUP) == "defaults"
    assert config_text(attrs.evolve(GROUP, retry_max_times=3)) == "retryMaxTimes=3"


def test_a_change_shows_what_differs() -> None:
    assert change_texts(attrs.evolve(TOPIC, read_queue_nums=2), TOPIC) == ("readQueueNums=2", "readQueueNums=4")
    assert change_texts(attrs.evolve(GROUP, consume_enable=False), GROUP) == (
        "consumeEnable=false",
        "consumeEnable=true",
    )
    assert change_texts(TOPIC, TOPIC) == ("unchanged", "unchanged")


def test_the_log_says_created_or_changed_and_shows_no_value_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = logging.getLogger("rocketpy.broker")
    log_put(log, "topic", TOPIC, None)
    log_put(log, "topic", attrs.evolve(TOPIC, perm=4), TOPIC)
    log_put(log, "group", GROUP, None)
    assert [(each.getMessage(), vars(each)["fields"]) for each in caplog.records] == [
        ("topic created", {"topic": "T", "now": "readQueueNums=4 writeQueueNums=4 perm=6"}),
        ("topic changed", {"topic": "T", "now": "perm=4", "was": "perm=6"}),
        ("group created", {"group": "G", "now": "defaults"}),
    ]
