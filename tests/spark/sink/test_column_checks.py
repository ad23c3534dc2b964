"""Checks of columns: the first value at fault, and its row."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np
import pyarrow as pa

from rocketpy.spark.sink.column_checks import blank_mask, null_mask, refuse, refuse_separators
from rocketpy.spark.sink.failures import RowFault


def test_the_first_bad_value_is_named_by_its_row() -> None:
    with pytest.raises(RowFault, match="row 30: value 1"):
        refuse(np.array([False, True, True]), lambda at: f"value {at}", rows=np.array([10, 30, 40]))
    with pytest.raises(RowFault, match="row 2: bad"):
        refuse(np.array([False, False, True]), "bad")
    refuse(np.array([False]), "nothing is bad")


def test_null_is_neither_blank_nor_a_separator() -> None:
    column = pa.array([None, "", " ", "\t ", "a"])
    assert null_mask(column).tolist() == [True, False, False, False, False]
    assert blank_mask(column).tolist() == [False, True, True, True, False]
    refuse_separators(column, "a tag")
    with pytest.raises(RowFault, match="row 1: a tag contains"):
        refuse_separators(pa.array(["a", "b\x02"]), "a tag")
