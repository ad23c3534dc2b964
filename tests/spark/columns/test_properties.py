"""Properties taken apart all together, compared with the decoder of one text."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.properties import decode_properties
from rocketpy.spark.columns.properties import properties_column, property_column, read_entries

MAP = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
ODD = [
    b"",
    b"\1",
    b"\2",
    b"TAGS",
    b"TAGS\1",
    b"\1A",
    b"TAGS\1A",
    b"TAGS\1A\2",
    b"\2TAGS\1A",
    b"TAGS\1A\2\2KEYS\1k",
    b"TAGS\1A\1B",
    b"TAGS\1\1",
    b"TAGS\1A\2TAGS\1B",
    b"TAGS\1A\2KEYS\1k\2TAGS\1",
    b"TAGS\1A\2xTAGS\1B\2TAGSx\1C\2TAG\1D",
    b"gr\xc3\xbcn\1\xe2\x82\xac",
    b"\xff\1a\2\xfe\1b",
    b"TAGS\1\xc3\2KEYS\1k",
    b"\xc3\1A",
    b"a\1b\0c",
    b"\2\2\2\1\1\1\2",
    b"ab\1two\2UNIQ_KEY\1u\2UNIQ_KEY_abcdefgh\1long\2x234567890123456\1longer\2abcdefg\1seven",
    b"aB\1x\2UNIQ_KEx\1x\2UNIQ_KEY_abcdefgx\1x\2x234567890123x56\1x\2abcdefx\1x\2abcdxfg\1y",
]


def assert_as_decoded(texts: list[bytes]) -> None:
    buffer, starts, ends = b"", [], []
    for text in texts:
        buffer += b"\1\2"
        starts.append(len(buffer))
        buffer += text
        ends.append(len(buffer))
    entries = read_entries(buffer, np.array(starts, np.int64), np.array(ends, np.int64))
    expected = [decode_properties(text.decode("utf-8", "replace")) for text in texts]
    maps = properties_column(entries, MAP)
    maps.validate(full=True)
    assert maps.to_pylist() == [list(each.items()) for each in expected]
    for name in ("TAGS", "KEYS", "a", "ab", "UNIQ_KEY", "UNIQ_KEY_abcdefgh", "x234567890123456", "abcdefg"):
        column = property_column(entries, name)
        column.validate(full=True)
        assert column.to_pylist() == [each.get(name) for each in expected]


@pytest.mark.parametrize("text", ODD)
def test_an_odd_text_is_what_the_decoder_makes_of_it(text: bytes) -> None:
    assert_as_decoded([text])
    assert_as_decoded([b"TAGS\1A\2KEYS\1k1 k2", text, b"TAGS\1B", text])


def test_all_odd_texts_together() -> None:
    assert_as_decoded(ODD)
    assert_as_decoded([])


def test_more_names_than_fit_a_word_are_searched_for_repetitions_too() -> None:
    many = [b"\2".join(b"n%d\1v%d" % (number, number) for number in range(100))]
    assert_as_decoded([*many, b"n7\1a\2n8\1b\2n7\1c", *many])


@given(st.lists(st.lists(st.sampled_from([b"\1", b"\2", b"TAGS", b"KEYS", b"a", b"\xff", b"\xc3\xbc"])).map(b"".join)))
def test_any_texts_are_what_the_decoder_makes_of_them(texts: list[bytes]) -> None:
    assert_as_decoded(texts)


def test_the_map_takes_the_nullability_that_spark_asks_for() -> None:
    entries = read_entries(b"\0a\1b", np.array([1]), np.array([4]))
    loose = pa.map_(pa.string(), pa.string())
    assert properties_column(entries, loose).type == loose
