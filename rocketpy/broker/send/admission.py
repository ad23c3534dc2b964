"""Admission control for sends: the gate that fast failure closes and every send passes.

An open gate costs the fast path nothing. Closing it invalidates the topics that
:class:`~rocketpy.broker.send.fast_path.FastSend` has cached as plain, so every send takes the general path, which
checks the gate first.

Compatibility: ``SendMessageProcessor.rejectRequest`` and what ``BrokerFastFailure`` answers (4.9.8): SYSTEM_BUSY with
RocketMQ's texts, followed by the cause and the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.connection import Connection

Refusal: TypeAlias = Callable[[Connection], str | None]
"""Return why a request of a connection is refused now, or None if it is admitted."""


class SendGate:
    """Gate for the sends of one broker; initially open."""

    def __init__(self) -> None:
        self.refused_count = 0
        self._refusal: Refusal | None = None
        self._on_close: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """Whether every send is admitted."""
        return self._refusal is None

    def on_close(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the gate closes."""
        self._on_close.append(listener)

    def close(self, refusal: Refusal) -> None:
        """Submit every send to ``refusal`` from now on, and notify the listeners."""
        self._refusal = refusal
        for listener in self._on_close:
            listener()

    def open(self) -> None:
        """Admit every send again."""
        self._refusal = None

    def check(self, connection: Connection) -> None:
        """Raise RequestError(SYSTEM_BUSY) if a send on this connection is refused now."""
        if self._refusal is None:
            return
        remark = self._refusal(connection)
        if remark is not None:
            self.refused_count += 1
            raise RequestError(ResponseCode.SYSTEM_BUSY, remark)
