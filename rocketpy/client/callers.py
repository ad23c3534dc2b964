"""Methods to which it matters which part of a program calls: a task of Trio, a task of asyncio, a thread.

Trio says which task runs. The shells for asyncio and plain code run calls in tasks that they keep, so there the task of
Trio says nothing about the caller. A method that is marked with :func:`told_caller` has a second form for them, whose
first argument identifies the caller. Only identity counts; None is nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_FORM = "_told_caller"
_READY = "_ready_for_caller"


def told_caller(
    form: Callable[..., Any], *, ready: Callable[..., Any] | None = None
) -> Callable[[FunctionT], FunctionT]:
    """Mark an async method: ``form`` does the same, and takes the caller before the method's own arguments.

    ``ready`` takes the caller and returns a result that needs no wait, None without one; it may run in any thread.
    """

    def mark(function: FunctionT) -> FunctionT:
        setattr(function, _FORM, form)
        setattr(function, _READY, ready)
        return function

    return mark


def form_for_caller(method: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the other form of a bound method, bound as well; None if callers are all the same to it."""
    return _bound(method, _FORM)


def ready_for_caller(method: Callable[..., Any]) -> Callable[[object], Any] | None:
    """Return what takes a result of a bound method that is here, bound as well; None if it has none."""
    return _bound(method, _READY)


def _bound(method: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    form = getattr(method, name, None)
    return None if form is None else form.__get__(method.__self__)  # type: ignore[attr-defined]
