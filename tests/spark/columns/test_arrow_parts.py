"""Parts of a buffer as arrays, and their small helpers."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np
import pyarrow as pa

from rocketpy.spark.columns.arrow_parts import (
    array_of,
    binary_parts,
    booleans,
    bytes_of,
    offsets_of,
    replaced,
    spread,
    strings_of,
    text_of,
    values_of,
)

BUFFER = b"0123456789"


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(0, 0)],
        [(0, 10)],
        [(0, 3), (3, 5)],
        [(1, 2), (4, 4), (4, 7), (9, 10)],
        [(10, 10)],
    ],
)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda each: np.frombuffer(each, np.uint8)])
def test_parts_are_the_slices(spans: list[tuple[int, int]], make) -> None:
    starts, ends = (np.array([span[at] for span in spans], np.int64) for at in (0, 1))
    parts = binary_parts(make(BUFFER), starts, ends)
    parts.validate(full=True)
    assert parts.to_pylist() == [BUFFER[start:end] for start, end in spans]
    assert bytes_of(parts).tobytes() == b"".join(parts.to_pylist())
    assert offsets_of(parts).tolist() == np.cumsum([0, *map(len, parts.to_pylist())]).tolist()


@pytest.mark.parametrize("spans", [[(0, 4), (3, 5)], [(5, 6), (1, 2)], [(4, 3)]])
def test_parts_that_overlap_or_go_back_are_a_mistake_of_the_caller(spans: list[tuple[int, int]]) -> None:
    """Arrow would read outside of the buffer."""
    starts, ends = (np.array([span[at] for span in spans], np.int64) for at in (0, 1))
    with pytest.raises(AssertionError):
        binary_parts(BUFFER, starts, ends)


def test_malformed_utf8_is_replaced_and_null_stays_null() -> None:
    texts = [b"plain", None, b"gr\xc3\xbcn", b"\xff\xc3", b""]
    expected = [each if each is None else each.decode("utf-8", "replace") for each in texts]
    assert text_of(pa.array(texts, pa.binary())).to_pylist() == expected
    assert text_of(pa.array(texts[:3], pa.binary())).type == pa.string()


def test_elements_are_spread_over_rows_and_put_in_place_of_others() -> None:
    assert spread(pa.array(["a", "b"]), np.array([1, 3]), 5).to_pylist() == [None, "a", None, "b", None]
    assert spread(pa.array([], pa.string()), np.array([], np.intp), 2).to_pylist() == [None, None]
    assert replaced(pa.array([1, 2, 3]), np.array([0, 2]), pa.array([8, 9])).to_pylist() == [8, 2, 9]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_arrays_and_what_they_hold_are_the_same_both_ways(count: int) -> None:
    values = np.arange(count) * -3
    is_missing = values % 2 == 0
    for each in (values.astype(np.int32), values.astype(np.int64), np.repeat(values, 2)[::2]):
        made = array_of(each)
        made.validate(full=True)
        assert made.equals(pa.array(each))
        assert values_of(made).tolist() == each.tolist()
        assert values_of(made[3:]).tolist() == each.tolist()[3:]
        assert array_of(each, is_missing=is_missing).equals(pa.array(each, mask=is_missing))
    times = pa.timestamp("us", tz="UTC")
    assert array_of(values, times).equals(pa.array(values).cast(times))
    assert booleans(is_missing).equals(pa.array(is_missing))
    assert values_of(booleans(is_missing)).tolist() == is_missing.tolist()
    assert values_of(booleans(is_missing)[3:]).tolist() == is_missing.tolist()[3:]


@pytest.mark.parametrize("values", [[], [""], ["a", "", "gr\u00fcn"]])
def test_strings_are_an_array(values: list[str]) -> None:
    strings_of(values).validate(full=True)
    assert strings_of(values).equals(pa.array(values, pa.string()))


def test_numbers_with_nulls_or_of_another_width_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        values_of(pa.array([1, None]))
    with pytest.raises(AssertionError):
        array_of(np.arange(3), pa.int32())
