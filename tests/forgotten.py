"""How a test sees that a table keeps nothing of what has ended: the table must not be what keeps an object alive."""

from __future__ import annotations

import gc
from collections.abc import Callable


class Name(str):
    """A name that, unlike a plain string, can be referred to weakly."""


def is_forgotten(reference: Callable[[], object]) -> bool:
    """Whether nothing refers to the object of a ``weakref.ref``; the caller must have dropped its own names for it."""
    gc.collect()
    return reference() is None
