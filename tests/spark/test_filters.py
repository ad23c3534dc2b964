"""Which messages a read wants, and what becomes of Spark's filters: no row is lost, whatever is pushed down."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from rocketpy.protocol.message import MessageExt
from rocketpy.spark.filters import ALL, EVERYTHING, MessageFilter, PushedFilters, Range, translate
from rocketpy.spark.schema import TIMESTAMP_MS_MAX
from tests.spark.columns.oracle import is_wanted


def test_a_range_ends_before_its_end() -> None:
    assert [number for number in range(6) if Range(2, 4).holds(number)] == [2, 3]
    assert ALL.holds(-(2**63))


def test_two_ranges_intersect() -> None:
    assert Range(1, None).intersect(Range(None, 5)) == Range(1, 5)
    assert Range(1, 9).intersect(Range(3, 5)) == Range(3, 5)
    assert Range(1, 3).intersect(Range(3, 5)).is_empty
    assert not ALL.intersect(Range(3)).is_empty


def test_everything_has_no_condition() -> None:
    assert MessageFilter() == EVERYTHING


def at(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("condition", "wants"),
    [
        (EqualTo(("topic",), "a"), MessageFilter(topics=frozenset("a"))),
        (EqualTo(("Topic",), "a"), MessageFilter(topics=frozenset("a"))),
        (EqualNullSafe(("tags",), "a"), MessageFilter(tags=frozenset("a"))),
        (In(("topic",), ("a", "b", None)), MessageFilter(topics=frozenset("ab"))),
        (In(("topic",), (None,)), MessageFilter(topics=frozenset())),
        (EqualTo(("queue_id",), 3), MessageFilter(queue_ids=frozenset({3}))),
        (EqualTo(("queue_offset",), 3), MessageFilter(queue_offsets=Range(3, 4))),
        (GreaterThan(("queue_offset",), 3), MessageFilter(queue_offsets=Range(4))),
        (GreaterThanOrEqual(("queue_offset",), 3), MessageFilter(queue_offsets=Range(3))),
        (LessThan(("physical_offset",), 3), MessageFilter(physical_offsets=Range(end=3))),
        (LessThanOrEqual(("physical_offset",), 3), MessageFilter(physical_offsets=Range(end=4))),
        (EqualTo(("store_timestamp",), at(5)), MessageFilter(store_timestamps_ms=Range(5, 6))),
        (EqualTo(("store_timestamp",), at(5.001)), MessageFilter(store_timestamps_ms=Range(0, 0))),
        (GreaterThan(("store_timestamp",), at(5)), MessageFilter(store_timestamps_ms=Range(6))),
        (GreaterThan(("store_timestamp",), at(5.5)), MessageFilter(store_timestamps_ms=Range(6))),
        (GreaterThanOrEqual(("store_timestamp",), at(5)), MessageFilter(store_timestamps_ms=Range(5))),
        (GreaterThanOrEqual(("born_timestamp",), at(5.5)), MessageFilter(born_timestamps_ms=Range(6))),
        (LessThan(("born_timestamp",), at(5)), MessageFilter(born_timestamps_ms=Range(end=5))),
        (LessThan(("born_timestamp",), at(5.5)), MessageFilter(born_timestamps_ms=Range(end=6))),
        (LessThanOrEqual(("born_timestamp",), at(5)), MessageFilter(born_timestamps_ms=Range(end=6))),
        (LessThanOrEqual(("born_timestamp",), at(-5.5)), MessageFilter(born_timestamps_ms=Range(end=-5))),
        (IsNotNull(("topic",)), EVERYTHING),
    ],
)
def test_a_filter_that_means_the_same_here_is_done(condition: Filter, wants: MessageFilter) -> None:
    assert translate([condition]) == (wants, [])


@pytest.mark.parametrize(
    ("condition", "wants"),
    [
        (EqualTo(("keys",), "a b"), MessageFilter(keys=frozenset("a"))),
        (EqualTo(("unique_key",), "a b"), MessageFilter(keys=frozenset({"a b"}))),
        (In(("keys",), (" a", "b c")), MessageFilter(keys=frozenset("ab"))),
        (In(("keys",), (" ", "b c")), EVERYTHING),
        (In(("queue_offset",), (3, 9)), MessageFilter(queue_offsets=Range(3, 10))),
        (EqualTo(("body",), b"a"), EVERYTHING),
        (EqualTo(("topic",), None), EVERYTHING),
        (EqualNullSafe(("tags",), None), EVERYTHING),
        (EqualTo(("topic",), 3), EVERYTHING),
        (EqualTo(("queue_id",), True), EVERYTHING),
        (EqualTo(("queue_id",), 3.0), EVERYTHING),
        (EqualTo(("topic", "a"), "a"), EVERYTHING),
        (GreaterThan(("queue_id",), 3), EVERYTHING),
        (GreaterThan(("store_timestamp",), datetime(2020, 1, 1)), EVERYTHING),
        (GreaterThan(("queue_offset",), 3.5), EVERYTHING),
        (IsNotNull(("tags",)), EVERYTHING),
        (IsNull(("tags",)), EVERYTHING),
        (Not(EqualTo(("topic",), "a")), EVERYTHING),
        (StringStartsWith(("topic",), "a"), EVERYTHING),
        (EqualTo(("something else",), 1), EVERYTHING),
    ],
)
def test_a_filter_that_is_not_certain_to_mean_the_same_stays_with_spark(
    condition: Filter, wants: MessageFilter
) -> None:
    narrowed, [left] = translate([condition])
    assert narrowed == wants
    assert left is condition


def test_filters_are_joined_with_what_the_options_say() -> None:
    wants, left = translate(
        [In(("topic",), ("a", "b")), LessThan(("queue_offset",), 9), EqualTo(("unique_key",), "u")],
        MessageFilter(topics=frozenset("bc"), queue_offsets=Range(3), keys=frozenset("k")),
    )
    assert wants == MessageFilter(topics=frozenset("b"), queue_offsets=Range(3, 9), keys=frozenset("k"))
    assert left == [EqualTo(("unique_key",), "u")]


def test_not_null_is_implied_by_any_other_condition_on_the_column() -> None:
    conditions = [IsNotNull(("tags",)), EqualTo(("tags",), "a"), IsNotNull(("born_timestamp",)), IsNotNull(("keys",))]
    assert translate([*conditions, LessThan(("born_timestamp",), at(5))])[1] == [IsNotNull(("keys",))]


def test_a_zone_of_a_time_counts() -> None:
    noon = datetime(1970, 1, 1, 12, tzinfo=timezone(timedelta(hours=12)))
    assert translate([EqualTo(("store_timestamp",), noon)])[0].store_timestamps_ms == Range(0, 1)


_COMPARES = {
    EqualTo: lambda found, value: found == value,
    GreaterThan: lambda found, value: found > value,
    GreaterThanOrEqual: lambda found, value: found >= value,
    LessThan: lambda found, value: found < value,
    LessThanOrEqual: lambda found, value: found <= value,
    In: lambda found, value: found in value,
}


def keeps(condition: Filter, message: MessageExt) -> bool:
    """Whether Spark keeps the message's row: a null meets nothing."""
    born = message.born_timestamp
    found = {
        "topic": message.topic,
        "queue_offset": message.queue_offset,
        "born_timestamp": at(born) if 0 <= born <= TIMESTAMP_MS_MAX else None,
        "tags": message.tags,
        "keys": message.keys,
        "unique_key": message.properties.get("UNIQ_KEY"),
    }[condition.attribute[0]]
    if isinstance(condition, IsNotNull):
        return found is not None
    return found is not None and _COMPARES[type(condition)](found, condition.value)


texts = st.sampled_from(["a", "b", "a b", " b", " "])
moments = st.sampled_from([-1, 0, 1, 2, 0.5, 1.25, -0.5]).map(at)
orders = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
conditions = (
    st.builds(lambda kind, value: kind(("queue_offset",), value), orders, st.integers(0, 4))
    | st.builds(lambda kind, value: kind(("born_timestamp",), value), orders, moments)
    | st.builds(lambda name, values: In((name,), tuple(values)), st.sampled_from(["topic", "tags"]), st.lists(texts))
    | st.builds(
        lambda name, values: In((name,), tuple(values)), st.sampled_from(["keys", "unique_key"]), st.lists(texts)
    )
    | st.builds(lambda values: In(("queue_offset",), tuple(values)), st.lists(st.integers(0, 4)))
    | st.builds(lambda values: In(("born_timestamp",), tuple(values)), st.lists(moments))
    | st.builds(lambda name: IsNotNull((name,)), st.sampled_from(["topic", "tags", "keys", "born_timestamp"]))
)
messages = st.builds(
    MessageExt,
    topic=texts,
    body=st.just(b""),
    properties=st.dictionaries(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY"]), texts),
    queue_offset=st.integers(0, 4),
    born_timestamp=st.sampled_from([-1, 0, 1, 2, TIMESTAMP_MS_MAX + 1]),
)


@given(st.lists(conditions, max_size=4), st.lists(messages, min_size=1, max_size=5))
def test_what_is_narrowed_and_what_is_left_keep_together_what_spark_would_keep(
    filters: list[Filter], found: list[MessageExt]
) -> None:
    wants, left = translate(filters)
    for message in found:
        keeps_all = all(keeps(each, message) for each in filters)
        assert (is_wanted(wants, message) and all(keeps(each, message) for each in left)) == keeps_all


class Reader(DataSourceReader):
    pushFilters = PushedFilters()  # noqa: N815

    def __init__(self) -> None:
        self.wants = EVERYTHING

    def read(self, partition: InputPartition):
        raise AssertionError


def test_a_reader_with_pushed_filters_keeps_what_it_can_do_and_returns_the_rest() -> None:
    reader = Reader()
    mine, other = EqualTo(("topic",), "a"), Not(EqualTo(("topic",), "b"))
    assert [each is other for each in reader.pushFilters([mine, other])] == [True]
    assert pickle.loads(pickle.dumps(reader)).wants == MessageFilter(topics=frozenset("a"))


def test_spark_does_not_refuse_the_reader_where_pushdown_is_off() -> None:
    """The check of ``plan_data_source_read``, word for word."""
    assert getattr(Reader().pushFilters, "__func__", None) is DataSourceReader.pushFilters
