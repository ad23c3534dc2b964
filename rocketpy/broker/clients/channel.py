"""The client at the other end of a connection, as its heartbeat identifies it."""

from __future__ import annotations

import attrs

from rocketpy.protocol.codes import LanguageCode
from rocketpy.remoting.connection import Connection

CHANNEL_EXPIRED_SECONDS = 120.0
"""A client without a heartbeat for this long is removed, and its connection closed."""


@attrs.define(eq=False, slots=True)
class ClientChannelInfo:
    """One client of one group over one connection."""

    channel: Connection
    client_id: str
    language: LanguageCode | None
    version: int
    last_update: float  # seconds of a clock that does not step
    access_key: str | None = None  # of the account that signs its heartbeats; None if no signature is required
