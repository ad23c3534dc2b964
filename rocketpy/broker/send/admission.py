"""Whether this broker takes sends at the moment: what fast failure closes, and every road of a send asks.

Open, it costs the hot road nothing: who closes the gate makes :class:`~rocketpy.broker.send.fast_path.HotSend`
forget which topics are plain, so every send takes the whole road, which asks here first.

Compatibility: ``SendMessageProcessor.rejectRequest`` and what ``BrokerFastFailure`` answers (4.9.8): SYSTEM_BUSY with
RocketMQ's texts, followed by the cause and the limit; broker.md 16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.connection import Connection

Refusal: TypeAlias = Callable[[Connection], str | None]
"""Says why a request of a connection is refused now, None if this one is not."""


class SendGate:
    """The gate of one broker; open until it is closed."""

    def __init__(self) -> None:
        self.refused_count = 0
        self._refusal: Refusal | None = None
        self._on_close: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """Whether every send is taken."""
        return self._refusal is None

    def on_close(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the gate closes."""
        self._on_close.append(listener)

    def close(self, refusal: Refusal) -> None:
        """Ask ``refusal`` about every send from now on."""
        self._refusal = refusal
        for listener in self._on_close:
            listener()

    def open(self) -> None:
        """Take every send again."""
        self._refusal = None

    def check(self, connection: Connection) -> None:
        """Raise RequestError(SYSTEM_BUSY) if a send of this connection is refused now."""
        if self._refusal is None:
            return
        remark = self._refusal(connection)
        if remark is not None:
            self.refused_count += 1
            raise RequestError(ResponseCode.SYSTEM_BUSY, remark)
