"""What the shells for asyncio and plain code must know of a method beyond its signature.

It may matter *who calls*: a task of Trio, a task of asyncio, a thread. Trio says which task runs. The shells run calls
in tasks that they keep, so there the task of Trio says nothing about the caller. A method that is marked with
:func:`told_caller` has a form for them, whose first argument identifies the caller. Only identity counts; None is no
caller.

A result may be *handed over*, as messages are: what is returned counts as received. In Trio a call that is cancelled
has returned nothing. In asyncio, and with KeyboardInterrupt, the cancellation may come when the call has ended already,
and its caller never sees the result. Methods that are marked with :func:`hands_over` or :func:`taken_when_ready` lose
nothing then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import attrs

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_FORM, _HANDS_OVER, _TAKING, _IN_CHUNKS = "_told_caller", "_hands_over", "_taken_when_ready", "_in_chunks"


@attrs.frozen
class Taking:
    """A call in two parts, bound to an object."""

    ready: Callable[[object], Any]
    """Takes the caller; returns a result that is here, None without one. In any thread; does not wait."""

    wait: Callable[[], Awaitable[object]]
    """Returns once there may be a result; raises what the call raises."""


def told_caller(form: Callable[..., Any]) -> Callable[[FunctionT], FunctionT]:
    """Mark an async method: ``form`` does the same, and takes the caller before the method's own arguments."""
    return lambda function: _marked(function, _FORM, form)


def hands_over(function: FunctionT) -> FunctionT:
    """Mark an async method: a result that its caller does not see is the one of the next call."""
    return _marked(function, _HANDS_OVER, True)


def taken_when_ready(ready: Callable[..., Any], wait: Callable[..., Any]) -> Callable[[FunctionT], FunctionT]:
    """Mark an async method without arguments: it is the same as the two parts of a :class:`Taking`, in turn."""
    return lambda function: _marked(function, _TAKING, (ready, wait))


def in_chunks(function: FunctionT) -> FunctionT:
    """Mark an async method that takes an iterable and returns a list, and may as well be called for each part of it.

    An iterable may block. In plain code it is read where that does no harm: in the caller's thread.
    """
    return _marked(function, _IN_CHUNKS, True)


def is_in_chunks(method: Callable[..., Any]) -> bool:
    """Whether the method is marked with :func:`in_chunks`."""
    return getattr(method, _IN_CHUNKS, False)


def form_for_caller(method: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the other form of a bound method, bound as well; None if callers are all the same to it."""
    form = getattr(method, _FORM, None)
    return None if form is None else form.__get__(method.__self__)  # type: ignore[attr-defined]


def is_handed_over(method: Callable[..., Any]) -> bool:
    """Whether the method is marked with :func:`hands_over`."""
    return getattr(method, _HANDS_OVER, False)


def taking_of(method: Callable[..., Any]) -> Taking | None:
    """Return the two parts of a bound method that is marked with :func:`taken_when_ready`."""
    parts = getattr(method, _TAKING, None)
    return None if parts is None else Taking(*(part.__get__(method.__self__) for part in parts))  # type: ignore[attr-defined]


def _marked(function: FunctionT, name: str, value: object) -> FunctionT:
    setattr(function, name, value)
    return function
