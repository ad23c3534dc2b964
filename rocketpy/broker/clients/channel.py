"""Who is at the other end of a connection: the client that a heartbeat named."""

from __future__ import annotations

import attrs

from rocketpy.protocol.codes import LanguageCode
from rocketpy.remoting.connection import Connection

CHANNEL_EXPIRED_SECONDS = 120.0
"""A client from which no heartbeat came for so long is forgotten and its connection closed."""


@attrs.define(eq=False, slots=True)
class ClientChannelInfo:
    """One client of one group over one connection."""

    channel: Connection
    client_id: str
    language: LanguageCode | None
    version: int
    last_update: float  # seconds of a clock that does not step
    access_key: str | None = None  # of the account that its heartbeats are signed with; None where that does not count
