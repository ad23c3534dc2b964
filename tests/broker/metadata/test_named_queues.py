"""Topics that a message may name: existing ones, except the broker's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import ResponseCode
from tests.broker.tables_of_a_broker import make_tables


@pytest.fixture
def named_queues(tmp_path: Path) -> NamedQueues:
    topics = make_tables(tmp_path, broker_cluster_name="TheCluster").topics
    topics.update_topic_config(TopicConfig("Audit"))
    return NamedQueues(topics)


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("Audit", True), ("%LMQ%nobody made it", True), ("NoSuchTopic", False), ("TBW102", False),
        ("SELF_TEST_TOPIC", False), ("TheCluster", False), ("broker-a", False), ("TheCluster_REPLY_TOPIC", False),
    ],
)  # fmt: skip
def test_names_of_topics_and_of_light_queues(named_queues: NamedQueues, name: str, may: bool) -> None:
    assert named_queues.may_be_named(name) is may
    if may:
        named_queues.check({"INNER_MULTI_DISPATCH": f"Audit,{name},"})
        return
    with pytest.raises(RequestError, match=f", found '{name}'$") as caught:
        named_queues.check({"INNER_MULTI_DISPATCH": f"Audit,{name}"})
    assert caught.value.response_code == ResponseCode.MESSAGE_ILLEGAL


def test_a_message_that_names_nothing_is_not_looked_at(named_queues: NamedQueues) -> None:
    named_queues.check({})
    named_queues.check({"INNER_MULTI_DISPATCH": " ,"})


def test_a_long_name_is_shown_in_part(named_queues: NamedQueues) -> None:
    with pytest.raises(RequestError, match=r"expected the name of a topic, found 'x{127}'$"):
        named_queues.check({"INNER_MULTI_DISPATCH": "x" * 30_000})
