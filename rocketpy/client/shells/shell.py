"""Objects of the client as another kind of program uses them: what the shells for asyncio and for plain code share.

A shell is made by looking at the class of its object (:mod:`rocketpy.client.shells.members`), so a new role, method or
property is there at once. A kind of program is a subclass that says how a call crosses into Trio and what waiting is:

================  =============================  ================================
member            asyncio                        plain code
================  =============================  ================================
CALL              a coroutine function           a function that blocks
OPEN              an async context manager       a context manager
ITERATE           an async generator             a generator
PLAIN             called as it is                called in the loop's thread
VALUE             read as it is                  read in the loop's thread
handler           runs as a task of asyncio      is called in a worker thread
================  =============================  ================================
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from rocketpy.client.begun import Begun
from rocketpy.client.shells.held_scope import HeldScope
from rocketpy.client.shells.loop_call import CallTasks
from rocketpy.client.shells.members import Kind, handler_parameters, has_waiting_members, kind_of

ShellT = TypeVar("ShellT", bound="Shell[Any]")

OpenScope = Callable[[], AbstractAsyncContextManager[Any]]


class CallingLoop(Protocol):
    """A Trio loop that calls are made to, with a ``call`` of the kind of program."""

    @property
    def tasks(self) -> CallTasks:
        """The calls of the whole loop."""
        ...


LoopT = TypeVar("LoopT", bound=CallingLoop)


class Shell(ABC, Generic[LoopT]):
    """An object of the client. A member is made when it is first used, and found without :meth:`__getattr__` then.

    An object's own class is made by :func:`shell_class`, and has the name of the class of its target.
    """

    def __init__(self, target: Any, loop: LoopT, held: HeldScope) -> None:
        self._target = target
        self._loop = loop
        self._held = held
        self._opened: Any = None  # the block of ``with`` on the object itself

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self._target).__name__!r} object has no public attribute {name!r}", name=name)
        kind = kind_of(self._target.__class__, name)
        if kind is Kind.VALUE:
            return self._value_of(name)
        member = getattr(self._target, name)
        made = functools.wraps(member)(_MAKERS[kind](self, member))
        self.__dict__[name] = made
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif kind_of(self._target.__class__, name) is Kind.VALUE and hasattr(self._target, name):
            self._set_value(name, value.__dict__["_target"] if isinstance(value, Shell) else value)
        else:
            raise AttributeError(f"{type(self._target).__name__!r} object has no attribute {name!r} to set", name=name)

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<{self._word} shell of {self._target!r}>"

    def __len__(self) -> int:
        return len(self._target)

    def __bool__(self) -> bool:  # most objects have no length
        return bool(self._target)

    # ---- what a kind of program says ------------------------------------------------------------------------------

    _word: str
    _module: str
    _kind: type[Shell[LoopT]]
    """The class for this kind of program, which :func:`shell_class` has made the object's own class of."""

    @abstractmethod
    def _value_of(self, name: str) -> Any:
        """Return an attribute or property."""

    @abstractmethod
    def _set_value(self, name: str, value: Any) -> None:
        """Set an attribute."""

    @abstractmethod
    def _call_member(self, member: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return a method that waits."""

    @abstractmethod
    def _iterate_member(self, member: Callable[..., Any]) -> Callable[..., Any]:
        """Return a generator function."""

    @abstractmethod
    def _plain_member(self, member: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that does not wait."""

    @abstractmethod
    def _open(self, open_scope: OpenScope) -> Any:
        """Return a context manager, within the block that this object belongs to."""

    @abstractmethod
    def _handler(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Return a function of the program as one that Trio can await."""

    # ---- for them -------------------------------------------------------------------------------------------------

    def _open_member(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def opening(*arguments: Any, **named: Any) -> Any:
            function, given = self._bound(member, arguments, named)
            return self._open(functools.partial(function, *given))

        return opening

    def _shelled(self, value: Any) -> Any:
        """Return a result of the client, in a shell if it needs one."""
        return in_shell(self._kind, value, self._loop, self._held)

    def _opened_or_shelled(self, value: Any) -> Any:
        """Return the result of a method that does not wait: it may be a block of the client."""
        if isinstance(value, AbstractAsyncContextManager):
            return self._open(lambda: value)
        return self._shelled(value)

    def _bound(
        self, member: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return a member and its arguments as the client takes them."""
        given = [
            self._handed(member, index, each) if isinstance(each, Shell) or callable(each) else each
            for index, each in enumerate(arguments)
        ]
        if named:
            names = {name: self._handed(member, name, each) for name, each in named.items()}
            member = functools.partial(member, **names)
        return member, given

    def _handed(self, member: Callable[..., Any], parameter: int | str, value: Any) -> Any:
        """Return an argument without its shell, and a handler as an async function of Trio."""
        if isinstance(value, Shell):
            return value._target
        if callable(value) and parameter in handler_parameters(getattr(member, "__func__", member)):
            return self._handler(value)
        return value


_MAKERS: dict[Kind, Callable[[Shell[Any], Callable[..., Any]], Callable[..., Any]]] = {
    Kind.CALL: lambda shell, member: shell._call_member(member),
    Kind.OPEN: lambda shell, member: shell._open_member(member),
    Kind.ITERATE: lambda shell, member: shell._iterate_member(member),
    Kind.PLAIN: lambda shell, member: shell._plain_member(member),
}


@functools.cache
def shell_class(kind: type[ShellT], owner: type) -> type[ShellT] | None:
    """Return the class of an object's shell in a kind of program, or None for values, which need none."""
    if not has_waiting_members(owner):
        return None
    return type(owner.__name__, (kind,), {"__doc__": owner.__doc__, "__module__": kind._module, "_kind": kind})


def in_shell(kind: type[Shell[LoopT]], value: Any, loop: LoopT, held: HeldScope) -> Any:
    """Return an object of the client in a shell, a value as it is."""
    made = shell_class(kind, value.__class__)
    return value if made is None else made(value, loop, held)


def begin_like(
    begin: Callable[..., Begun[Any] | None] | None, function: Callable[..., Any]
) -> Callable[..., Begun[Any] | None] | None:
    """Return the other form of a method, with the named arguments that the method is bound with."""
    return functools.partial(begin, **function.keywords) if begin and isinstance(function, functools.partial) else begin
