"""The processor result DEFERRED: another component sends the reply later.

A module of its own because both the dispatcher, which receives it, and the connection, which counts deferred requests,
need these types, and neither may import the other for them.
"""

from __future__ import annotations

from typing import Final, Protocol

from rocketpy.protocol.codes import SerializeType


class Deferred:
    """The type of :data:`DEFERRED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEFERRED"


DEFERRED: Final = Deferred()
"""Returned by a processor when the reply is given later, through ``Connection.reply_deferred``."""


class Owed(Protocol):
    """An unanswered request, reduced to the fields that its answer repeats."""

    @property
    def opaque(self) -> int: ...

    @property
    def serialize_type(self) -> SerializeType: ...

    @property
    def is_oneway(self) -> bool: ...
