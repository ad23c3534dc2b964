"""Properties by columns: which name wins, what is refused, and which row is at fault."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.sink.failures import RowFault
from rocketpy.spark.sink.row_keys import RowKeyMode
from tests.spark.sink.encoded import columns_of, encoded, rows_of


def properties_of(*, mode: RowKeyMode = RowKeyMode.NONE, types: Any = None, **values: Any) -> list[dict[str, str]]:
    """Return the properties of each row, without WAIT."""
    drop = values.pop("drop_reserved", False)
    namespace = values.pop("namespace", "")
    count = len(next(iter(values.values())))
    columns = columns_of(types, body=[b"x"] * count, **values)
    found = [each for _, each in rows_of(encoded(columns, mode=mode, drop_reserved=drop, namespace=namespace))]
    assert all(each.pop("WAIT") == "true" for each in found)
    return found


def test_tags_and_keys_are_left_out_where_they_are_null_or_blank() -> None:
    assert properties_of(tags=["a", None, "", " "], keys=["k l", None, " ", ""]) == [
        {"TAGS": "a", "KEYS": "k l", "UNIQ_KEY": "U0"},
        {"UNIQ_KEY": "U1"},
        {"UNIQ_KEY": "U2"},
        {"UNIQ_KEY": "U3"},
    ]


def test_several_keys_are_separated_by_blanks() -> None:
    found = properties_of(types={"keys": pa.list_(pa.string())}, keys=[["a", "b"], [], None, ["c"]])
    assert [each.get("KEYS") for each in found] == ["a b", None, None, "c"]


def test_a_map_may_be_null_or_empty_or_sliced() -> None:
    assert properties_of(properties=[[("a", "1"), ("b", "2")], None, [], [("c", "3")]]) == [
        {"a": "1", "b": "2", "UNIQ_KEY": "U0"},
        {"UNIQ_KEY": "U1"},
        {"UNIQ_KEY": "U2"},
        {"c": "3", "UNIQ_KEY": "U3"},
    ]


def test_a_column_wins_over_the_map_and_a_unique_key_in_the_map_is_kept() -> None:
    """A message that is read and written again keeps its id."""
    maps = [[("TAGS", "m"), ("KEYS", "m"), ("UNIQ_KEY", "mine")], [("TAGS", "m"), ("KEYS", "m")]]
    assert properties_of(tags=["c", None], keys=[None, "c"], properties=maps) == [
        {"KEYS": "m", "UNIQ_KEY": "mine", "TAGS": "c"},
        {"TAGS": "m", "KEYS": "c", "UNIQ_KEY": "U1"},
    ]


def test_the_key_of_the_row_replaces_one_that_was_read() -> None:
    maps = [[("SPARK_ROW_KEY", "old"), ("a", "b")]]
    assert properties_of(mode=RowKeyMode.PROPERTY, properties=maps) == [
        {"a": "b", "UNIQ_KEY": "U0", "SPARK_ROW_KEY": "write/2/0"}
    ]
    assert properties_of(properties=maps)[0]["SPARK_ROW_KEY"] == "old"


def test_what_brokers_have_added_is_dropped_if_that_is_wanted() -> None:
    maps = [[("CLUSTER", "c"), ("a", "b"), ("DELAY", "3"), ("WAIT", "false")], [("MSG_REGION", "r")]]
    assert properties_of(properties=maps, drop_reserved=True) == [{"a": "b", "UNIQ_KEY": "U0"}, {"UNIQ_KEY": "U1"}]


def test_a_client_with_a_namespace_says_so_in_every_message() -> None:
    assert properties_of(tags=["a"], namespace="NS") == [{"TAGS": "a", "UNIQ_KEY": "U0", "INSTANCE_ID": "NS"}]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"tags": ["a", "b\x01"]}, r"row 1: the tag contains '\\x01'"),
        ({"keys": ["a", "b\x02"]}, r"row 1: a key contains '\\x02'"),
        ({"properties": [None, [("a", "b"), ("DELAY", "3")]]}, "row 1: the property DELAY belongs to RocketMQ; .*drop"),
        ({"properties": [[], [("a", None)]]}, "row 1: the property 'a' has a blank name or value"),
        ({"properties": [[("a", "b")], [("a", " ")]]}, "row 1: the property 'a' has a blank name or value"),
        ({"properties": [[("a", "b")], [("", "x")]]}, "row 1: the property '' has a blank name"),
        ({"properties": [[("a", "b"), ("c", "d\x02")]]}, "row 0: the value of a property contains"),
        ({"properties": [[("a\x01", "b")]]}, "row 0: the name of a property contains"),
    ],
)
def test_a_text_that_would_not_survive_is_refused(values: dict[str, list[Any]], fault: str) -> None:
    with pytest.raises(RowFault, match=fault):
        properties_of(**values)


@pytest.mark.parametrize(("keys", "fault"), [(["a b"], "'a b' contains a blank"), ([None], "null"), ([""], "blank")])
def test_a_key_that_would_become_two_or_none_is_refused(keys: list[str | None], fault: str) -> None:
    with pytest.raises(RowFault, match=f"row 2: .*{fault}"):
        properties_of(types={"keys": pa.list_(pa.string())}, keys=[["x", "y"], None, ["z", *keys]])
