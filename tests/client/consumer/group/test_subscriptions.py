"""Subscriptions and their versions."""

from __future__ import annotations

from rocketpy.client.consumer.group.subscriptions import Subscriptions


def test_a_version_is_the_time_and_always_above_the_one_before() -> None:
    now = [1000]
    subscriptions = Subscriptions(lambda: now[0])
    subscriptions.add("T", "*")
    subscriptions.add("U", "A")
    now[0] = 500  # a clock that has been set back
    subscriptions.add("T", "B")
    now[0] = 5000
    subscriptions.add("V", "*")
    assert {each.topic: each.sub_version for each in subscriptions.values} == {"T": 1002, "U": 1001, "V": 5000}
    assert subscriptions.topics == ["T", "U", "V"]


def test_a_topic_can_be_left() -> None:
    subscriptions = Subscriptions(lambda: 1)
    subscriptions.add("T", "A")
    found = subscriptions.get("T")
    assert found is not None
    assert found.sub_string == "A"
    subscriptions.remove("T")
    subscriptions.remove("unknown")
    assert subscriptions.get("T") is None
    assert subscriptions.values == []
