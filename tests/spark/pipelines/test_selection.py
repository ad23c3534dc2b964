"""Selection of messages: each condition alone, and all of them together."""

from __future__ import annotations

from datetime import timedelta

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.selection import Selection, selected
from tests.spark.pipelines.messages import BEGIN, frame, message, places


def test_each_condition_narrows_the_selection(spark: SparkSession) -> None:
    rows = [message(topic, 0, offset) for topic in ("T", "U") for offset in range(4)]
    messages = frame(spark, [*rows, message("T", 1, 0, keys=None, unique_key=None, tags=None)]).cache()

    def chosen(**conditions: object) -> list[tuple[str, int, int]]:
        return places(selected(messages, Selection(**conditions)))  # type: ignore[arg-type]

    assert len(chosen()) == 9
    assert chosen(topics=("U", "V")) == [("U", 0, offset) for offset in range(4)]
    assert chosen(keys=("k1", "U3")) == [("T", 0, 1), ("T", 0, 3), ("U", 0, 1), ("U", 0, 3)]
    assert chosen(keys=("k",)) == []
    begin, end = BEGIN + timedelta(seconds=1), BEGIN + timedelta(seconds=3)
    assert chosen(topics=("T",), begin=begin, end=end) == [("T", 0, 1), ("T", 0, 2)]
    assert chosen(where="tags = 'odd' or properties['mine'] = '2'", topics=("T",)) == [("T", 0, 1), ("T", 0, 3)]
    assert chosen(where="tags = 'odd' or true", topics=("T",), begin=end) == [("T", 0, 3)]
    messages.unpersist()


def test_a_condition_that_spark_does_not_understand_fails_at_once(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="tgas"):
        selected(frame(spark, []), Selection(where="tgas = 'x'"))
