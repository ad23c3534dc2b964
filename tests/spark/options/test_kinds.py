"""What the text of an option means."""

from __future__ import annotations

import pytest

from rocketpy.spark.options.kinds import (
    ADDRESSES,
    BOOLEAN,
    DURATION,
    LOCAL_PATH,
    NAMES,
    TEXT,
    TIMESTAMP,
    Kind,
    one_of,
    size_in_bytes,
    whole_number,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (TEXT, "a, b", "a, b"),
        (LOCAL_PATH, "a b:c", "a b:c"),
        (LOCAL_PATH, "file:///a/b%20c?#", "/a/b%20c?#"),
        (LOCAL_PATH, "FILE:/a", "/a"),
        (LOCAL_PATH, "file://localhost/a", "/a"),
        (NAMES, " a ,b,,a", ("a", "b")),
        (ADDRESSES, "a:1; [::1]:65535", ("a:1", "[::1]:65535")),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, "false", False),
        (whole_number(2, 5), "2", 2),
        (whole_number(2, 5), "5", 5),
        (size_in_bytes(1, 2**40), "100", 100),
        (size_in_bytes(1, 2**40), "64k", 65536),
        (size_in_bytes(1, 2**40), "3 MB", 3 * 2**20),
        (size_in_bytes(1, 2**40), "1G", 2**30),
        (one_of("a", "b", "c"), "B", "b"),
        (TIMESTAMP, "1700000000123", 1_700_000_000_123),
        (TIMESTAMP, "2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        (TIMESTAMP, "2023-11-14T22:13:20.5", 1_700_000_000_500),
        (DURATION, "1500", 1.5),
        (DURATION, "500ms", 0.5),
        (DURATION, "10 s", 10.0),
        (DURATION, "15m", 900.0),
        (DURATION, "15min", 900.0),
        (DURATION, "2H", 7200.0),
        (DURATION, "1d", 86_400.0),
    ],
)
def test_a_text_becomes_a_value(kind: Kind[object], text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (TEXT, [""]),
        (LOCAL_PATH, ["", "hdfs:///a", "s3a://bucket/a", "file://host/a"]),
        (NAMES, ["", " , "]),
        (ADDRESSES, ["", ";", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:1;b"]),
        (BOOLEAN, ["", "yes", "1"]),
        (whole_number(2, 5), ["", "1", "6", "-2", "2.0", "٣"]),
        (size_in_bytes(10, 2**20), ["", "m", "9", "2m", "1.5m", "-1", "1t", "b"]),
        (one_of("a", "b"), ["", "c"]),
        (TIMESTAMP, ["", "noon", "-1", str(1 << 63), "9" * 5000]),
        (DURATION, ["", "m", "1.5s", "-1s", "1 year", "٣s", "1" * 13]),
    ],
)
def test_any_other_text_is_refused(kind: Kind[object], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError):
            kind.parse(text)


def test_what_is_expected_names_the_bounds_and_words() -> None:
    assert whole_number(2, 5).expected == "a whole number from 2 to 5"
    assert one_of("a", "b", "c").expected == "a, b or c"
