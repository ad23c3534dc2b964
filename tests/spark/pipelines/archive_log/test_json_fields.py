"""Members of the files of pipelines: each type and range, and the sentence that refuses another one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.json_fields import INT64_MAX, JsonFields, read_fields

WORD = re.compile("[a-z]+")


def fields_of(document: object) -> JsonFields:
    return read_fields(json.dumps(document).encode(), "/f", "a file")


def test_members_are_read_by_their_type() -> None:
    fields = fields_of(
        {"n": 1, "t": "", "time": "2026-01-31T12:00:00Z", "words": ["a", "b"], "o": {"p": 2}, "os": [{"n": 0}]}
    )
    assert (fields.number("n"), fields.text("t"), fields.time("time")) == (1, "", "2026-01-31T12:00:00Z")
    assert fields.texts("words", WORD, "words") == ("a", "b")
    assert fields.inner("o").number("p") == 2
    assert fields.objects("os", lambda each: each.number("n")) == (0,)
    fields.expect_only(("n", "t", "time", "words", "o", "os", "left out"))


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (lambda fields: fields.number("m"), "1", "m: expected a whole number from 0 to 9223372036854775807, found '1'"),
        (lambda fields: fields.number("m"), True, "m: expected a whole number from 0"),
        (lambda fields: fields.number("m"), 1.0, "m: expected a whole number from 0"),
        (lambda fields: fields.number("m"), -1, "m: expected a whole number from 0"),
        (lambda fields: fields.number("m"), INT64_MAX + 1, "m: expected a whole number from 0"),
        (lambda fields: fields.number("m", 3), 2, "m: expected a whole number from 3"),
        (lambda fields: fields.text("m"), 5, "m: expected a text, found 5"),
        (lambda fields: fields.name("m"), "", "m: expected a text that is not empty, found ''"),
        (lambda fields: fields.time("m"), "yesterday", "m: expected a time like 2026-01-31T12:00:00+00:00"),
        (lambda fields: fields.time("m"), "2026-01-31T12:00:00", "m: expected a time like"),
        (lambda fields: fields.matching("m", WORD, "a word"), "A", "m: expected a word, found 'A'"),
        (lambda fields: fields.texts("m", WORD, "a word"), ["a", 5], "m[1]: expected a word, found 5"),
        (lambda fields: fields.texts("m", WORD, "a word"), "a", "m: expected a list, found 'a'"),
        (lambda fields: fields.inner("m"), [], "m: expected an object, found []"),
        (lambda fields: fields.inner("m").number("n"), {"n": -1}, "m.n: expected a whole number"),
        (lambda fields: fields.objects("m", lambda each: each.text("n")), [{}], "m[0].n: expected a value, found None"),
        (lambda fields: fields.count("m", 0, fields.items("m")[0]), [-1], "m[0]: expected a whole number of 0 or more"),
        (lambda fields: fields.share("m", 0, fields.items("m")[0]), [0], "m[0]: expected a number above 0, at most 1"),
        (lambda fields: fields.share("m", 0, fields.items("m")[0]), [1.5], "m[0]: expected a number above 0"),
        (lambda fields: fields.expect_only(("n",)), 1, "m: expected only n, found 1"),
        (lambda fields: fields.number("x"), 1, "x: expected a value, found None"),
    ],
)
def test_another_member_is_refused_with_file_place_and_what_was_expected(
    read: Callable[[JsonFields], object], value: object, said: str
) -> None:
    with pytest.raises(StoreError) as failure:
        read(fields_of({"m": value}))
    assert said in str(failure.value)
    assert str(failure.value).endswith(", in a file (/f)")


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"\xff", b'{"a":1', b'{"a":1,"a":1}', b"[" * 100_000])
def test_a_file_that_has_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(StoreError, match=r"^expected a file, found something else: .*\(/f\)$"):
        read_fields(content, "/f", "a file")
