"""Options of the Spark source: text in, one value out, and errors that name option, value and expectation."""

from __future__ import annotations

import pytest

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.options.read import ReadOptions, parse_options


def test_path_alone_is_enough() -> None:
    assert parse_options({"path": "/store"}) == ReadOptions(path="/store")


def test_live_options_in_any_case_and_as_lists() -> None:
    options = parse_options({"NAMESERVER": "a:1; b:2", "Topic": "T1, T2", "failondataloss": "FALSE"})
    assert options.name_servers == ("a:1", "b:2")
    assert options.topics == ("T1", "T2")
    assert not options.fail_on_data_loss
    assert options.path is None


def test_an_account_signs_requests_and_its_secret_is_not_shown() -> None:
    live = {"nameServer": "a:1", "topic": "T", "accessKey": "RocketMQ", "secretKey": "12345678"}
    options = parse_options(live)
    assert options.credentials == SessionCredentials("RocketMQ", "12345678")
    assert "12345678" not in repr(options)
    for missing in ("accessKey", "secretKey"):
        with pytest.raises(SettingsError, match="accessKey and secretKey belong together"):
            parse_options({key: value for key, value in live.items() if key != missing})


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20+00:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20.5", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_timestamps_are_milliseconds_or_iso_and_utc_without_a_zone(text: str, timestamp_ms: int) -> None:
    options = parse_options({"path": "/store", "startTimestamp": text, "endTimestamp": text})
    assert options.start_timestamp_ms == options.end_timestamp_ms == timestamp_ms


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["path", "nameServer", "neither"]),
        ({"path": " "}, ["path", "nameServer", "neither"]),
        ({"path": "/s", "nameServer": "a:1", "topic": "T"}, ["path", "nameServer", "both"]),
        ({"nameServer": "a:1"}, ["topic"]),
        ({"nameServer": "nonsense", "topic": "T"}, ["nameServer", "host:port", "'nonsense'"]),
        ({"nameServer": "a:0", "topic": "T"}, ["nameServer", "host:port", "'a:0'"]),
        ({"nameServer": "a:65536", "topic": "T"}, ["nameServer", "host:port"]),
        ({"path": "/s", "minPartitions": "0"}, ["minPartitions", "1 to", "'0'"]),
        ({"path": "/s", "minPartitions": "two"}, ["minPartitions", "'two'"]),
        ({"path": "/s", "decompress": "yes"}, ["decompress", "true or false", "'yes'"]),
        ({"path": "/s", "startTimestamp": "noon"}, ["startTimestamp", "milliseconds", "'noon'"]),
        ({"path": "/s", "topics": "T"}, ["unknown option 'topics'", "the nearest is topic"]),
    ],
)
def test_wrong_options_are_named_with_what_was_expected(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_options(options)
    for word in words:
        assert word in str(caught.value)


def test_the_range_of_time_includes_its_start_and_not_its_end() -> None:
    options = parse_options({"path": "/s", "startTimestamp": "10", "endTimestamp": "20", "topic": "T"})
    assert [options.wants("T", time) for time in (9, 10, 19, 20)] == [False, True, True, False]
    assert not options.wants("U", 15)
    assert ReadOptions(path="/s").wants("anything", 0)
