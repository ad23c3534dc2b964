"""Checks of whole columns, whose faults name the first row that has one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from rocketpy.spark.sink.failures import RowFault

Mask = npt.NDArray[np.bool_]


def refuse(is_bad: Mask, fault: str | Callable[[int], str], *, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Raise a :class:`RowFault` for the first value that is bad; ``fault`` is its text, or a function of its position.

    ``rows`` are the rows of the values, where they are not one for each row.
    """
    if is_bad.any():
        position = int(np.argmax(is_bad))
        text = fault if isinstance(fault, str) else fault(position)
        raise RowFault(position if rows is None else int(rows[position]), text)


def null_mask(column: pa.Array) -> Mask:
    """Return where a column is null."""
    return mask(column.is_null())


def mask(column: pa.BooleanArray) -> Mask:
    """Return a column of truth values; null is false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


def blank_mask(column: pa.StringArray) -> Mask:
    """Return where a text is empty or white space."""
    return mask(pc.or_(pc.equal(column, ""), pc.utf8_is_space(column)))


def refuse_separators(column: pa.StringArray, name: str, *, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Refuse a text that contains one of the two characters that separate properties."""
    for separator in (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR):
        has = mask(pc.match_substring(column, separator))
        refuse(has, f"{name} contains {separator!r}, which separates properties", rows=rows)
