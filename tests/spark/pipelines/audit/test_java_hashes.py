"""Hashes of columns equal those of single strings, whatever the rows are mixed with."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash, java_hash, tags_code
from rocketpy.spark.pipelines.audit.java_hashes import index_key_hashes, java_hashes, tags_codes

TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=40), st.text(alphabet="ab#", max_size=2000)), max_size=12)


@given(TEXTS)
@example(["TagA", None, "", "订单", "polygenelubricants", "x" * 1024, "x" * 1025, "\U0001f600"])
def test_each_row_has_the_hash_of_its_string(texts: list[str | None]) -> None:
    expected = [java_hash(text or "") for text in texts]
    assert java_hashes(pa.array(texts, pa.string())).tolist() == expected


@given(TEXTS)
def test_a_slice_of_a_column_is_hashed_from_its_own_rows(texts: list[str | None]) -> None:
    column = pa.array(["before", *texts, "after"], pa.string())
    assert java_hashes(column.slice(1, len(texts))).tolist() == [java_hash(text or "") for text in texts]


def test_tag_codes_are_those_of_units() -> None:
    tags = [None, "TagA", "", "TagB", "TagA", "订单"]
    assert tags_codes(pa.array(tags, pa.string())).tolist() == [tags_code(each) for each in tags]
    assert tags_codes(pa.array([None, None], pa.string())).tolist() == [0, 0]


def test_index_hashes_are_those_of_single_keys() -> None:
    topics, keys = ["TopicTest", "", "T"], ["key1", "polygenelubricants", "订单"]
    hashes = index_key_hashes(pa.array(topics), pa.array(keys)).tolist()
    assert hashes == [index_key_hash(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True)]


def test_a_hash_that_java_cannot_make_positive_is_zero() -> None:
    text = _text_with_the_smallest_hash()
    topic, _, key = text.partition("#")
    assert java_hash(text) == -(2**31)
    assert index_key_hashes(pa.array([topic]), pa.array([key])).tolist() == [0]


def _text_with_the_smallest_hash() -> str:
    """Return ``t#...`` whose hash is Integer.MIN_VALUE: digits of the remaining value in base 31."""
    wanted = 2**31
    head = "t#"
    size = 8
    base = java_hash(head + "0" * size) & 0xFFFF_FFFF
    rest = (wanted - base) % 2**32
    digits = []
    for exponent in reversed(range(size)):
        digit = min(rest // 31**exponent, 60)
        digits.append(chr(ord("0") + digit))
        rest -= digit * 31**exponent
    assert rest == 0
    return head + "".join(digits)
