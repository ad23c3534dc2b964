"""Rows as items of a batch: equal to what the client encodes, faults by row."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.batch import encode_batch_item
from rocketpy.spark.sink.encoding import EncodingRules, encode_rows
from rocketpy.spark.sink.failures import RowFault
from rocketpy.spark.sink.property_texts import PropertyRules
from tests.spark.sink.encoded import columns_of, encoded, keys_of, rows_of

TEXTS = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs", "Zs", "Cc")), min_size=1, max_size=9
)
ROWS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=40),
        st.none() | TEXTS,
        st.dictionaries(TEXTS.map("p{}".format), TEXTS, max_size=3),
    ),
    min_size=1,
    max_size=20,
)


@given(rows=ROWS, offset=st.integers(0, 3))
def test_an_item_has_the_bytes_that_the_client_would_send(
    rows: list[tuple[bytes, str | None, dict[str, str]]], offset: int
) -> None:
    """Also of a batch that is a slice of a longer one, as Arrow has them."""
    columns = columns_of(
        body=[b"before"] * offset + [body for body, _, _ in rows],
        tags=["before"] * offset + [tag for _, tag, _ in rows],
        properties=[[("before", "x")]] * offset + [list(each.items()) for _, _, each in rows],
    )
    encoding = encoded({name: column.slice(offset) for name, column in columns.items()})
    expected = [
        encode_batch_item(0, body, {**each, **({"TAGS": tag} if tag else {}), "WAIT": "true", "UNIQ_KEY": f"U{number}"})
        for number, (body, tag, each) in enumerate(rows)
    ]
    assert encoding.items.to_pylist() == expected
    assert encoding.topics.to_pylist() == ["T"] * len(rows)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_a_string_is_written_as_utf_8(kind: pa.DataType) -> None:
    columns = columns_of({"body": kind}, body=["grün", "x"] if "string" in str(kind) else ["grün".encode(), b"x"])
    assert [body for body, _ in rows_of(encoded(columns))] == ["grün".encode(), b"x"]


def test_the_topic_of_a_row_wins_over_that_of_the_option() -> None:
    assert encoded(columns_of(topic=["A", None], body=[b"1", b"2"]), topic="T").topics.to_pylist() == ["A", "T"]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"body": [b"x", None]}, "row 1: the body is null"),
        ({"body": [b"x", b""]}, "row 1: the body is empty"),
        ({"body": [b"x", bytes(11)]}, r"row 1: the body has 11 bytes, the limit \(option maxMessageSize\) is 10"),
        ({"body": [b"x", b"y"], "topic": ["T", None]}, "row 1: the topic is null"),
        ({"body": [b"x", b"y"], "delay_level": [None, -2]}, "row 1: the delay level is -2"),
        (
            {"body": [b"x", b"y"], "tags": ["t" * 32767, "t"]},
            "row 0: the properties have 32794 bytes, the limit is 32767",
        ),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(values: dict[str, list[Any]], fault: str) -> None:
    with pytest.raises(RowFault, match=fault):
        encoded(columns_of(**values), topic=None if "topic" in values else "T", max_message_size=10)


def test_a_body_may_be_as_long_as_the_limit() -> None:
    assert rows_of(encoded(columns_of(body=[bytes(10)]), max_message_size=10))[0][0] == bytes(10)


def test_a_delay_level_of_null_or_0_is_none() -> None:
    assert encoded(columns_of(body=[b"x"] * 3, delay_level=[None, 0, 3])).delay_levels.tolist() == [0, 0, 3]


def test_no_rows_are_no_items() -> None:
    rules = EncodingRules("T", 10, PropertyRules())
    assert len(encode_rows(columns_of(body=[], properties=[]), 0, 0, rules=rules, keys=keys_of()).items) == 0
