"""Keys of rows: the same in every attempt, different for every row."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from itertools import count

from rocketpy.protocol.message_id import uniq_key_timestamp_ms
from rocketpy.spark.sink.row_keys import MessageKeys, RowKeyMode, TaskRows


def test_a_key_names_write_partition_and_row() -> None:
    assert TaskRows("query/7", 3).row_keys(10, 2).to_pylist() == ["query/7/3/10", "query/7/3/11"]


def test_derived_unique_keys_repeat_with_the_row_and_differ_with_all_else() -> None:
    tasks = [TaskRows(write, partition) for write in ("query/7", "query/8", "other") for partition in (0, 1)]
    keys = [key for task in tasks for key in task.unique_keys(0, 50).to_pylist()]
    assert len(set(keys)) == 300
    assert (
        TaskRows("query/7", 1).unique_keys(20, 2).to_pylist()
        == TaskRows("query/7", 1).unique_keys(0, 22).to_pylist()[20:]
    )
    assert {len(key) for key in keys} == {32}
    uniq_key_timestamp_ms(keys[0], now_ms=10**12)  # tools accept it as a UNIQ_KEY


@pytest.mark.parametrize(
    ("mode", "unique", "row"),
    [
        (RowKeyMode.NONE, ["0", "1"], None),
        (RowKeyMode.PROPERTY, ["0", "1"], ["w/0/5", "w/0/6"]),
        (RowKeyMode.UNIQUE_KEY, TaskRows("w", 0).unique_keys(5, 2).to_pylist(), None),
    ],
)
def test_the_mode_says_where_the_key_goes(mode: RowKeyMode, unique: list[str], row: list[str] | None) -> None:
    numbers = count()
    keys = MessageKeys(TaskRows("w", 0), mode, lambda wanted: [str(next(numbers)) for _ in range(wanted)])
    assert keys.unique_keys(5, 2).to_pylist() == unique
    found = keys.row_keys(5, 2)
    assert (None if found is None else found.to_pylist()) == row
