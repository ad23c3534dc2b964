"""Calls that need no task while they wait: begun by a plain call, ended by another.

A method of the client that is marked with :func:`begun_by` has a second form for callers outside of Trio: the shells
for asyncio and plain code. They would otherwise run each call in a task of Trio, whose switches cost more than most
calls. Both forms do the same; which one a caller takes is a matter of speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
T_co = TypeVar("T_co", covariant=True)

_BEGIN = "_begun_by"


class Begun(Protocol[T_co]):
    """A call under way. All of it is for the thread of the event loop; nothing here awaits."""

    @property
    def is_done(self) -> bool:
        """Whether the result, or a failure, is known."""
        ...

    def result(self) -> T_co:
        """Return the result, or raise the failure; only when it is done."""
        ...

    def on_done(self, function: Callable[[], object]) -> None:
        """Call a function once it is done; at most once, before that."""
        ...

    def abandon(self) -> None:
        """End the call as a cancellation would: the function of :meth:`on_done` is not called any more."""
        ...


class Done:
    """A call that had not to wait."""

    __slots__ = ("_value",)

    is_done = True

    def __init__(self, value: object) -> None:
        self._value = value

    def result(self) -> object:
        """Return the result."""
        return self._value

    def on_done(self, function: Callable[[], object]) -> None:
        """Never called: it is done."""
        raise AssertionError("it was done from the beginning")

    def abandon(self) -> None:
        """Do nothing: nothing is under way."""


def begun_by(begin: Callable[..., Begun[object] | None]) -> Callable[[FunctionT], FunctionT]:
    """Mark an async method: ``begin``, with the same parameters, begins it, or returns None if it takes a task.

    ``begin`` raises what the method would raise before its first wait; then nothing was begun.
    """

    def mark(function: FunctionT) -> FunctionT:
        setattr(function, _BEGIN, begin)
        return function

    return mark


def beginning_of(method: Callable[..., Any]) -> Callable[..., Begun[Any] | None] | None:
    """Return the other form of a bound method, bound as well; None if it has none."""
    begin = getattr(method, _BEGIN, None)
    return None if begin is None else begin.__get__(method.__self__)  # type: ignore[attr-defined]
