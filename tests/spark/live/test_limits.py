"""Where a read begins and ends: which option wins, what JSON must name, what a batch refuses."""

from __future__ import annotations

import pytest

from rocketpy.errors import ClientError, SettingsError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.live.limits import ending_limit, starting_limit
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse

A, B = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
BOUNDS = {A: QueueBounds(5, 20), B: QueueBounds(0, 10)}


def first_from(queue: MessageQueue, timestamp_ms: int) -> int:
    """Message N was stored at N * 10."""
    return min(max(-(-timestamp_ms // 10), BOUNDS[queue].earliest), BOUNDS[queue].latest)


def starts(options: dict[str, str], mode: Mode = Mode.LIVE) -> list[int]:
    found = starting_limit(parse(options, mode)).positions(BOUNDS, first_from)
    return [found[A], found[B]]


def ends(options: dict[str, str]) -> list[int]:
    found = ending_limit(parse(options, Mode.LIVE)).positions(BOUNDS, first_from)
    return [found[A], found[B]]


def both(first: int, second: int) -> str:
    return f'{{"T": {{"b": {{"0": {first}, "1": {second}}}}}}}'


def test_a_batch_is_of_everything_and_a_stream_of_what_comes() -> None:
    assert starts({}) == [5, 0]
    assert ends({}) == [20, 10]
    assert starts({}, Mode.STREAM) == [20, 10]
    assert starts({"startingOffsets": "Earliest"}, Mode.STREAM) == [5, 0]


def test_offsets_by_json_with_words_for_both_ends() -> None:
    assert starts({"startingOffsets": both(7, -2)}) == [7, 0]
    assert starts({"startingOffsets": both(-1, 3)}, Mode.STREAM) == [20, 3]
    assert ends({"endingOffsets": both(-1, 4)}) == [20, 4]


def test_a_time_is_the_first_message_at_or_after_it() -> None:
    assert starts({"startingTimestamp": "61"}) == [7, 7]
    assert starts({"startingOffsetsByTimestamp": both(100, 20)}) == [10, 2]
    assert ends({"endingTimestamp": "70"}) == [7, 7]
    assert ends({"endingOffsetsByTimestamp": both(100, 99_999)}) == [10, 10]


def test_which_option_wins() -> None:
    offsets = {"startingOffsets": both(6, 1)}
    by_queue = {"startingOffsetsByTimestamp": both(70, 70), **offsets}
    assert starts(offsets) == [6, 1]
    assert starts(by_queue) == [7, 7]
    assert starts({"startingTimestamp": "80", **by_queue}) == [8, 8]
    ending = {"endingOffsets": both(6, 1), "endingOffsetsByTimestamp": both(70, 70)}
    assert ends(ending) == [7, 7]
    assert ends({"endingTimestamp": "80", **ending}) == [8, 8]


def test_a_queue_without_so_late_a_message_is_an_error_or_begins_at_its_end() -> None:
    late = {"startingTimestamp": "150"}
    with pytest.raises(
        ClientError,
        match=r"startingTimestamp: topic T broker b queue 1 has no message stored at 150 or later .*Strategy=latest",
    ):
        starts(late)
    assert starts({**late, "startingOffsetsByTimestampStrategy": "latest"}) == [15, 10]
    assert ends({"endingTimestamp": "150"}) == [15, 10]


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("startingOffsets", '{"T": {"b": {"0": 1}}}', "startingOffsets: .*topic T broker b queue 1 is missing"),
        ("startingOffsets", '{"T": {"b": {"0": 1, "1": 1, "2": 1}}}', "queue 2 is not read, or not there"),
        ("startingOffsetsByTimestamp", '{"T": {"b": {"0": 1}}}', "startingOffsetsByTimestamp: .*is missing"),
    ],
)
def test_json_names_exactly_what_is_read(option: str, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        starts({option: text})


@pytest.mark.parametrize("text", ["latest", both(1, -1)])
def test_a_batch_cannot_begin_at_its_end(text: str) -> None:
    with pytest.raises(SettingsError, match="startingOffsets: a batch cannot begin at latest"):
        starts({"startingOffsets": text})


@pytest.mark.parametrize("text", ["earliest", both(1, -2)])
def test_a_batch_cannot_end_at_its_beginning(text: str) -> None:
    with pytest.raises(SettingsError, match="endingOffsets: a batch cannot end at earliest"):
        ends({"endingOffsets": text})


def test_a_stream_has_no_end() -> None:
    with pytest.raises(SettingsError, match="endingOffsets is for batch reads of a live cluster"):
        parse({"endingOffsets": "latest"}, Mode.STREAM)


def test_a_wrong_text_is_named_with_the_spot() -> None:
    with pytest.raises(
        SettingsError, match=r"option startingOffsets: expected earliest, latest or \{.*queues of broker 0"
    ):
        parse({"startingOffsets": '{"T": {"0": 17}}'}, Mode.LIVE)
