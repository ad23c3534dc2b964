"""The rule for names."""

from __future__ import annotations

import pytest

from rocketpy.protocol.topic_name import TOPIC_LENGTH_MAX, topic_name_fault


@pytest.mark.parametrize("topic", ["a", "%RETRY%group", "T-1_x|y", "x" * TOPIC_LENGTH_MAX])
def test_legal_names(topic: str) -> None:
    assert topic_name_fault(topic) is None


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("", "is blank"),
        ("   ", "is blank"),
        ("a b", "found ' ' in 'a b'"),
        ("a\n", r"found '\n'"),
        ("订单", "found '订'"),
        ("x" * 128, "It has 128 characters, the limit is 127"),
        ("?" * 1000, "..."),
    ],
)
def test_faults_say_what_was_found(topic: str, says: str) -> None:
    fault = topic_name_fault(topic)
    assert fault is not None
    assert says in fault
    assert len(fault) < 400
