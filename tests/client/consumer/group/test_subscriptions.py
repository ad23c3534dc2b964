"""Subscriptions and their versions."""

from __future__ import annotations

import pytest

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


def test_what_a_block_that_fails_has_changed_is_undone() -> None:
    subscriptions = Subscriptions(lambda: 1)
    subscriptions.add("T", "A")
    subscriptions.add("V", "*")
    before = subscriptions.values
    with pytest.raises(ZeroDivisionError), subscriptions.kept_on_failure(["T", "U"]):
        subscriptions.add("T", "B")
        subscriptions.add("U", "C")
        raise ZeroDivisionError
    assert subscriptions.values == before
    with subscriptions.kept_on_failure(["T", "U"]):
        assert subscriptions.add("T", "B") is subscriptions.get("T")
        subscriptions.add("U", "C")
    assert {each.topic: each.sub_string for each in subscriptions.values} == {"T": "B", "V": "*", "U": "C"}
