"""The answer DEFERRED: a processor has handed the duty to reply to another owner.

Below the dispatcher, which receives it, and the connection, which counts such requests: both need these types, and
neither needs the other for them.
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
    """A request that an answer is owed to: all that the answer needs of it."""

    @property
    def opaque(self) -> int: ...

    @property
    def serialize_type(self) -> SerializeType: ...

    @property
    def is_oneway(self) -> bool: ...
