"""Classification of the members of a class by whether they wait: five kinds (:class:`Kind`).

An object is put into a shell if it has a member that waits, and passed on as it is if it is a value.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import inspect
import typing
from collections.abc import Callable

_WAITING_METHODS = ("__aiter__", "__anext__", "__await__", "__aenter__")


class Kind(enum.Enum):
    """Ways to use a member of an object of the client."""

    CALL = "a method to be awaited"
    OPEN = "a method that returns an async context manager"
    ITERATE = "an async generator"
    PLAIN = "a method that does not wait"
    VALUE = "an attribute or property"


@functools.cache
def kind_of(owner: type, name: str) -> Kind:
    """Return the kind of a member."""
    member = inspect.getattr_static(owner, name, None)
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if not inspect.isfunction(member):
        return Kind.VALUE
    if inspect.iscoroutinefunction(member):
        return Kind.CALL
    inner = inspect.unwrap(member)
    if inspect.isasyncgenfunction(inner):
        return Kind.ITERATE if inner is member else Kind.OPEN
    return Kind.PLAIN


@functools.cache
def has_waiting_members(owner: type) -> bool:
    """Whether objects of a class need a shell."""
    if not owner.__module__.startswith("rocketpy.client."):
        return False
    waits = (Kind.CALL, Kind.OPEN, Kind.ITERATE)
    return any(hasattr(owner, name) for name in _WAITING_METHODS) or any(
        kind_of(owner, name) in waits for name in dir(owner) if not name.startswith("_")
    )


@functools.cache
def handler_parameters(function: Callable[..., object]) -> frozenset[int | str]:
    """Return which parameters of a method take a function to be awaited: position, without self, and name of each."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # a type that is imported for type checkers only
        return frozenset()
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    found = [(index, name) for index, name in enumerate(names) if _is_awaited(hints.get(name))]
    return frozenset(each for pair in found for each in pair)


def _is_awaited(hint: object) -> bool:
    if typing.get_origin(hint) is collections.abc.Callable:
        result = typing.get_origin(typing.get_args(hint)[-1])
        return isinstance(result, type) and issubclass(result, collections.abc.Awaitable)
    return any(_is_awaited(each) for each in typing.get_args(hint))
