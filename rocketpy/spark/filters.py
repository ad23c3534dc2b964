"""Which messages a read wants, as a value, and the translation of Spark's filters into it.

Rule: a filter never drops a message that Spark would keep. Whatever is not certain to mean the same here stays with
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import attrs
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from rocketpy.protocol.properties import KEY_SEPARATOR
from rocketpy.spark.schema import COLUMNS


@attrs.frozen
class Range:
    """Whole numbers from ``start`` to before ``end``; None is no bound."""

    start: int | None = None
    end: int | None = None

    def holds(self, number: int) -> bool:
        """Return whether a number is in the range."""
        return (self.start is None or number >= self.start) and (self.end is None or number < self.end)

    def intersect(self, other: Range) -> Range:
        """Return the numbers that are in both."""
        starts = [each for each in (self.start, other.start) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Range(max(starts, default=None), min(ends, default=None))

    @property
    def is_empty(self) -> bool:
        """Whether no number is in it."""
        return self.start is not None and self.end is not None and self.start >= self.end


ALL = Range()


@attrs.frozen(kw_only=True)
class MessageFilter:
    """Conditions that a wanted message meets, all of them. None, or the range ``ALL``, is no condition.

    An empty set wants nothing. A timestamp that the calendar does not have (a null in its column) is in no range but
    ``ALL``. ``keys`` are index keys: a message is wanted that has one of them, as its UNIQ_KEY or as a part of KEYS,
    whether or not the IndexFiles know it.
    """

    topics: frozenset[str] | None = None
    without_topics: frozenset[str] = frozenset()
    queue_ids: frozenset[int] | None = None
    store_timestamps_ms: Range = ALL
    born_timestamps_ms: Range = ALL
    queue_offsets: Range = ALL
    physical_offsets: Range = ALL
    tags: frozenset[str] | None = None
    keys: frozenset[str] | None = None


EVERYTHING = MessageFilter()


def translate(filters: Iterable[Filter], wants: MessageFilter = EVERYTHING) -> tuple[MessageFilter, list[Filter]]:
    """Return ``wants`` narrowed by filters that Spark joins with AND, and those that Spark must still apply.

    A filter may do both: what it lets through is narrowed, and Spark decides about the rest.
    """
    left = []
    for each in filters:
        wants, is_done = _narrowed(wants, each)
        if not is_done:
            left.append(each)
    return wants, [each for each in left if not _is_implied(each, wants)]


class Narrowed(Protocol):
    """A reader that filters are pushed to."""

    wants: MessageFilter


class PushedFilters:
    """``pushFilters`` of a reader that keeps its filter in ``wants``, as a class attribute.

    A reader that overrides ``pushFilters`` is refused by Spark in every session without
    ``spark.sql.python.filterPushdown.enabled``, so that filters are not ignored unnoticed. Nothing is ignored here:
    where Spark pushes nothing down, it applies all filters itself. Spark looks for an override by the function of the
    bound method, so that is the one of the base class.
    """

    def __get__(self, reader: Narrowed, _: type | None = None) -> _BoundPush:
        """Return the method of one reader."""
        return _BoundPush(reader)


@attrs.frozen(eq=False)
class _BoundPush:
    reader: Narrowed

    @property
    def __func__(self) -> object:
        return DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        self.reader.wants, left = translate(filters, self.reader.wants)
        return iter(left)


_SETS: dict[str, tuple[str, type]] = {
    "topic": ("topics", str),
    "queue_id": ("queue_ids", int),
    "tags": ("tags", str),
}
_RANGES: dict[str, tuple[str, type]] = {
    "queue_offset": ("queue_offsets", int),
    "physical_offset": ("physical_offsets", int),
    "store_timestamp": ("store_timestamps_ms", datetime),
    "born_timestamp": ("born_timestamps_ms", datetime),
}
"""Column, field of the filter, type of the values."""

_KEYS = ("keys", "unique_key")
_NEVER_NULL = {column.name for column in COLUMNS if not column.nullable}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Ranges of whole milliseconds (or offsets) that compare like this with a value in microseconds (or an offset): the
# scale is how many of the value's units are one of the column's.
_COMPARED: dict[type[Filter], Callable[[int, int], Range]] = {
    GreaterThan: lambda value, scale: Range(start=value // scale + 1),
    GreaterThanOrEqual: lambda value, scale: Range(start=-(-value // scale)),
    LessThan: lambda value, scale: Range(end=-(-value // scale)),
    LessThanOrEqual: lambda value, scale: Range(end=value // scale + 1),
}


def _narrowed(wants: MessageFilter, condition: Filter) -> tuple[MessageFilter, bool]:
    """Return the filter with one more condition, and whether it stands for all of that condition."""
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return wants, False
    column = attribute[0].lower()
    match condition:
        case EqualTo(value=value) | EqualNullSafe(value=value) if value is not None:
            return _narrowed_to_values(wants, column, (value,))
        case In(value=values):
            return _narrowed_to_values(wants, column, tuple(each for each in values if each is not None))
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual() if column in _RANGES:
            field, kind = _RANGES[column]
            if not _are_all([condition.value], kind):
                return wants, False
            value, scale = _whole(condition.value)
            narrower = getattr(wants, field).intersect(_COMPARED[type(condition)](value, scale))
            return _with(wants, field, narrower), True
        case IsNotNull():
            return wants, column in _NEVER_NULL
    return wants, False


def _narrowed_to_values(wants: MessageFilter, column: str, values: tuple[Any, ...]) -> tuple[MessageFilter, bool]:
    """Narrow to rows whose column has one of some values; none of them is null."""
    if column in _SETS:
        field, kind = _SETS[column]
        if not _are_all(values, kind):
            return wants, False
        known = getattr(wants, field)
        wanted = frozenset(values) if known is None else known & frozenset(values)
        return _with(wants, field, wanted), True
    if column in _RANGES:
        field, kind = _RANGES[column]
        if not _are_all(values, kind):
            return wants, False
        numbers = {whole for whole, is_exact in map(_column_value, values) if is_exact}
        span = Range(min(numbers), max(numbers) + 1) if numbers else Range(0, 0)
        return _with(wants, field, getattr(wants, field).intersect(span)), len(numbers) <= 1
    if column in _KEYS and wants.keys is None and _are_all(values, str):
        # The column is one text, which a record has only if it has each of its parts as a key: so one is asked for.
        parts = [[value] if column == "unique_key" else value.split(KEY_SEPARATOR) for value in values]
        firsts = [next(filter(None, each), None) for each in parts]
        if None not in firsts:
            return attrs.evolve(wants, keys=frozenset(filter(None, firsts))), False
    return wants, False


def _with(wants: MessageFilter, field: str, condition: Any) -> MessageFilter:
    return attrs.evolve(wants, **{field: condition})


def _is_implied(condition: Filter, wants: MessageFilter) -> bool:
    """Whether a condition holds for all that is wanted: a null meets no other condition on its column."""
    if not isinstance(condition, IsNotNull) or len(condition.attribute) != 1:
        return False
    column = condition.attribute[0].lower()
    if column in _SETS:
        return getattr(wants, _SETS[column][0]) is not None
    return column in _RANGES and getattr(wants, _RANGES[column][0]) != ALL


def _are_all(values: Iterable[object], kind: type) -> bool:
    """Whether values have a type that compares here as in Spark; a time without a zone depends on the session's."""
    return all(type(each) is kind and (not isinstance(each, datetime) or each.tzinfo is not None) for each in values)


def _whole(value: int | datetime) -> tuple[int, int]:
    """Return a value as a whole number, and how many of its units are one of its column's."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1), 1000
    return value, 1


def _column_value(value: int | datetime) -> tuple[int, bool]:
    """Return a value in the unit of its column, and whether the column can have exactly this value."""
    whole, scale = _whole(value)
    return whole // scale, whole % scale == 0
