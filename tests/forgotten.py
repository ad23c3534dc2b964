"""How a test sees that tables keep nothing of what has ended.

For one table: the table must not be what keeps an object alive (:func:`is_forgotten`). For a whole program: names that
come and go make no table longer (:func:`sizes_within`), whichever table it is and whoever wrote it.
"""

from __future__ import annotations

import array
import functools
import gc
import io
import logging
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from enum import Enum


class Name(str):
    """A name that, unlike a plain string, can be referred to weakly."""


def is_forgotten(reference: Callable[[], object]) -> bool:
    """Whether nothing refers to the object of a ``weakref.ref``; the caller must have dropped its own names for it."""
    gc.collect()
    return reference() is None


TABLES = (dict, list, set, frozenset, deque, OrderedDict, defaultdict, Counter)
_LEAVES = (
    *(str, bytes, bytearray, memoryview, int, float, bool, type(None), array.array, range, Enum, type),
    *(types.ModuleType, types.CodeType, types.BuiltinFunctionType, logging.Logger, logging.Handler, io.IOBase),
)
_FOREIGN = ("trio", "tests", "outcome", "threading", "_thread", "socket", "ssl")
"""Packages whose objects are no tables of ours: what Trio has depends on the moment, and a test keeps what it wants."""


def sizes_within(*roots: object) -> Counter[str]:
    """Return how many entries all tables that can be reached from objects have, by class and attribute.

    The walk goes through attributes, closures and bound methods, but not into Trio, modules, classes and the names that
    functions share. Two counts of a program at rest are equal.
    """
    gc.collect()
    sizes: Counter[str] = Counter()
    seen: dict[int, object] = {}  # kept alive: a number is an object's only while it lives
    waiting: list[tuple[str, object]] = [(type(root).__name__, root) for root in roots]
    while waiting:
        title, each = waiting.pop()
        if id(each) in seen or isinstance(each, _LEAVES) or _package_of(type(each)) in _FOREIGN:
            continue
        seen[id(each)] = each
        if isinstance(each, TABLES):
            if isinstance(each, dict) and "__builtins__" in each:
                continue  # the names of a module
            sizes[title] += len(each)
        waiting += _within(title, each)
    return +sizes


def _package_of(kind: type) -> str:
    """Return the package of a class; "" where mypyc has made ``__module__`` an attribute of its objects."""
    module: object = kind.__module__
    return module.split(".")[0] if isinstance(module, str) else ""


def growth(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return the tables that have more entries than before, each with both numbers."""
    return {title: (before[title], size) for title, size in sorted(after.items()) if size > before[title]}


def _within(title: str, each: object) -> Iterator[tuple[str, object]]:
    """Yield what an object refers to, each with the table that it would be."""
    if isinstance(each, dict):
        for key, value in each.items():
            yield f"{title}.keys", key
            yield f"{title}[]", value
    elif isinstance(each, (list, set, frozenset, deque, tuple)):
        yield from ((f"{title}[]", value) for value in each)
    elif isinstance(each, types.FunctionType):
        for cell in each.__closure__ or ():
            yield from ((f"{each.__qualname__}()", value) for value in gc.get_referents(cell))
    elif isinstance(each, (types.MethodType, functools.partial)):
        yield from ((title, value) for value in gc.get_referents(each))
    else:
        names = _attribute_names(each)
        if names:
            for name in names:
                value = getattr(each, name, None)
                yield f"{type(each).__name__}.{name}", value
        else:
            yield from ((f"{getattr(each, '__qualname__', type(each).__name__)}", at) for at in gc.get_referents(each))


def _attribute_names(each: object) -> list[str]:
    """Return the attributes of an object of a class of ours or of a library's, also one that mypyc has compiled."""
    found = dict.fromkeys(getattr(each, "__dict__", ()))
    for kind in type(each).__mro__:
        slots = kind.__dict__.get("__mypyc_attrs__") or kind.__dict__.get("__slots__") or ()
        for name in (slots,) if isinstance(slots, str) else slots:
            found[f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name] = None
    found.pop("__weakref__", None)
    found.pop("__dict__", None)
    return list(found)
