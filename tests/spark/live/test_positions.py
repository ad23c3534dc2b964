"""Offsets of queues as the text of options: both ways, and mistakes in it."""

from __future__ import annotations

import pytest

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.positions import format_positions, name_of, parse_positions, parse_queues

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("U", "b", 0)


def test_positions_are_written_as_they_are_read() -> None:
    text = '{"T": {"a": {"0": 17, "1": -2}}, "U": {"b": {"0": -1}}}'
    assert parse_positions(text) == {A0: 17, A1: -2, B0: -1}
    assert format_positions(parse_positions(text)) == text


def test_equal_positions_give_equal_texts() -> None:
    assert format_positions({B0: 1, A1: 2, A0: 3}) == format_positions({A0: 3, A1: 2, B0: 1})


def test_queues_alone() -> None:
    assert parse_queues('{"T": {"a": [0, 1]}, "U": {"b": ["0"]}}') == {A0, A1, B0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latest!", "Expecting value"),
        ("[]", r"an object with the topics, found \[\]"),
        ("{}", "names no queue"),
        ('{"T": 3}', "brokers of topic T, found 3"),
        ('{"T": {"0": 17}}', "queues of broker 0, found 17"),  # Kafka's form
        ('{"T": {"a": {"x": 17}}}', 'the number of a queue, found "x"'),
        ('{"T": {"a": {"0": "17"}}}', 'topic T broker a queue 0, found "17"'),
        ('{"T": {"a": {"0": 1.5}}}', "found 1.5"),
        ('{"T": {"a": {"0": true}}}', "found true"),
        ('{"T": {"a": {"0": -3}}}', "a number of -2 or more for topic T broker a queue 0, found -3"),
        ('{"T": {"a": {"0": 1, "0": 2}}}', "'0' is named twice"),
        ('{"T": {"a": {"0": 9223372036854775808}}}', "found 9223372036854775808"),
        ("[" * 100_000, "deep"),
    ],
)
def test_a_wrong_text_is_refused_with_the_spot(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_positions(text)


def test_timestamps_have_no_words_below_zero() -> None:
    assert parse_positions('{"T": {"a": {"0": 0}}}', least=0) == {A0: 0}
    with pytest.raises(ValueError, match="a number of 0 or more"):
        parse_positions('{"T": {"a": {"0": -1}}}', least=0)


@pytest.mark.parametrize("text", ['{"T": {"a": {"0": 1}}}', '{"T": {"a": [-1]}}', '{"T": {"a": [true]}}', '{"T": {}}'])
def test_wrong_queues_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|names no queue"):
        parse_queues(text)


def test_a_queue_has_one_name_in_all_messages() -> None:
    assert name_of(A1) == "topic T broker a queue 1"
