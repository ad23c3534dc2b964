"""Properties of rows as the text that travels: those of the columns, those of the map, and the producer's own.

Rules: a column (``tags``, ``keys``) wins over the entry of that name in the map. Of RocketMQ's own names the map may
have KEYS, TAGS, BUYER_ID and UNIQ_KEY, which is kept (a message that is written again keeps its id); any other is
refused, or dropped where the rows come from stored messages, whose properties have what brokers add.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.properties import (
    KEY_SEPARATOR,
    NAME_VALUE_SEPARATOR,
    PROPERTY_BUYER_ID,
    PROPERTY_INSTANCE_ID,
    PROPERTY_KEYS,
    PROPERTY_SEPARATOR,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
    RESERVED_PROPERTIES,
)
from rocketpy.spark.sink.column_checks import Mask, blank_mask, mask, null_mask, refuse, refuse_separators
from rocketpy.spark.sink.row_keys import PROPERTY_SPARK_ROW_KEY, MessageKeys

ALLOWED_IN_MAP = frozenset((PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_BUYER_ID, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX))
_REFUSED = pa.array(sorted(RESERVED_PROPERTIES - ALLOWED_IN_MAP))


@attrs.frozen
class PropertyRules:
    """What holds for the properties of all rows. ``namespace`` is the client's, empty without one."""

    drop_reserved: bool = False
    namespace: str = ""


@attrs.frozen(eq=False)
class _Entries:
    """The entries of all maps, one after the other."""

    names: pa.StringArray
    values: pa.StringArray
    rows: npt.NDArray[np.int64]
    """The row of each entry."""


def property_texts(
    columns: Mapping[str, pa.Array], count: int, first_row: int, *, rules: PropertyRules, keys: MessageKeys
) -> pa.BinaryArray:
    """Return the text of the properties of each row; :class:`RowFault` for the first that cannot be."""
    tags, key_texts = _tags(columns.get("tags")), _key_texts(columns.get("keys"))
    row_keys = keys.row_keys(first_row, count)
    unique_keys = keys.unique_keys(first_row, count)
    parts: list[pa.Array] = []
    if "properties" in columns:
        entries = _entries(columns["properties"])
        keep = _checked(entries, drop_reserved=rules.drop_reserved)
        for name, column in ((PROPERTY_TAGS, tags), (PROPERTY_KEYS, key_texts), (PROPERTY_SPARK_ROW_KEY, row_keys)):
            if column is not None:  # it wins
                keep &= ~(mask(pc.equal(entries.names, name)) & ~null_mask(column)[entries.rows])
        parts.append(_joined_entries(entries, keep, count))
        has_own = mask(pc.equal(entries.names, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX))
        if has_own.any():
            is_own = np.zeros(count, dtype=bool)
            is_own[entries.rows[has_own]] = True
            unique_keys = pc.if_else(pa.array(is_own), None, unique_keys)
    named = (
        (PROPERTY_TAGS, tags),
        (PROPERTY_KEYS, key_texts),
        (PROPERTY_WAIT_STORE_MSG_OK, pa.repeat("true", count)),
        (PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, unique_keys),
        (PROPERTY_SPARK_ROW_KEY, row_keys),
        (PROPERTY_INSTANCE_ID, pa.repeat(rules.namespace, count) if rules.namespace else None),
    )
    for name, column in named:
        if column is not None:
            parts.append(pc.binary_join_element_wise(name, column, NAME_VALUE_SEPARATOR))
    return pc.binary_join_element_wise(*parts, PROPERTY_SEPARATOR, null_handling="skip").cast(pa.binary())


def _tags(column: pa.Array | None) -> pa.StringArray | None:
    if column is None:
        return None
    column = column.cast(pa.string())
    refuse_separators(column, "the tag")
    return pc.if_else(pa.array(blank_mask(column)), None, column)


def _key_texts(column: pa.Array | None) -> pa.StringArray | None:
    """Return the keys of each row as RocketMQ stores them, separated by blanks; null: none."""
    if column is None:
        return None
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = _joined_keys(column)
    column = column.cast(pa.string())
    refuse_separators(column, "a key")
    return pc.if_else(pa.array(blank_mask(column)), None, column)


def _joined_keys(column: pa.Array) -> pa.StringArray:
    """Join the keys of each row; a key with a blank would become two."""
    column = column.cast(pa.list_(pa.string()))
    parts, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
    refuse(null_mask(parts) | blank_mask(parts), "a key is null or blank", rows=rows)
    has_blank = mask(pc.match_substring(parts, KEY_SEPARATOR))
    refuse(
        has_blank, lambda at: f"the key {parts[at].as_py()!r:.100} contains a blank, which separates keys", rows=rows
    )
    return pc.binary_join(column, KEY_SEPARATOR)


def _entries(column: pa.MapArray) -> _Entries:
    """Return the entries of all maps; those of a map that is null do not count."""
    offsets = column.offsets.to_numpy()
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    names, values = column.keys.slice(start, size).cast(pa.string()), column.items.slice(start, size).cast(pa.string())
    if column.null_count:
        there = ~null_mask(column)[rows]
        names, values, rows = names.filter(pa.array(there)), values.filter(pa.array(there)), rows[there]
    return _Entries(names, values, rows)


def _checked(entries: _Entries, *, drop_reserved: bool) -> Mask:
    """Return which entries are sent; refuse those that cannot be."""
    names, values, rows = entries.names, entries.values, entries.rows
    keep = ~mask(pc.is_in(names, value_set=_REFUSED))
    if not drop_reserved:
        refuse(
            ~keep,
            lambda at: (
                f"the property {names[at].as_py()} belongs to RocketMQ; leave it out, or set the option "
                "reservedProperties to drop"
            ),
            rows=rows,
        )
    is_bad = (blank_mask(names) | blank_mask(values) | null_mask(values)) & keep
    refuse(is_bad, lambda at: f"the property {names[at].as_py()!r:.100} has a blank name or value", rows=rows)
    refuse_separators(names, "the name of a property", rows=rows)
    refuse_separators(values, "the value of a property", rows=rows)
    return keep


def _joined_entries(entries: _Entries, keep: Mask, count: int) -> pa.StringArray:
    """Return the text of the entries of each row, null for a row without any."""
    texts = pc.binary_join_element_wise(entries.names, entries.values, NAME_VALUE_SEPARATOR)
    rows = entries.rows
    if not keep.all():
        texts, rows = texts.filter(pa.array(keep)), rows[keep]
    sizes = np.bincount(rows, minlength=count)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), texts)
    return pc.if_else(pa.array(sizes == 0), None, pc.binary_join(lists, PROPERTY_SEPARATOR))
