"""How a test sees that a table keeps nothing of what has ended: the table must not be what keeps an object alive."""

from __future__ import annotations

import gc
from collections.abc import Callable


class Name(str):
    """A name that, unlike a plain string, can be referred to weakly."""


def is_forgotten(reference: Callable[[], object]) -> bool:
    """Whether nothing refers to the object of this ``weakref.ref`` any more; the caller's own names for it must be gone as well."""
    gc.collect()
    return reference() is None
