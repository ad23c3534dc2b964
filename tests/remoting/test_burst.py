"""The order at the end of a burst is a promise: what was done is real before anybody hears of it."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.remoting.burst import Burst
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from tests.remoting.test_connection import NotingTransport, make_connection


class BurstTransport(NotingTransport):
    """Sends into a list, and hands dirty connections to a burst as the drivers do."""

    def __init__(self, burst: Burst, events: list[str]) -> None:
        super().__init__()
        self.burst = burst
        self.events = events

    def mark_dirty(self, connection: Connection) -> None:
        self.burst.mark_dirty(connection)

    def flush(self, connection: Connection) -> None:
        self.events.append(f"sent {connection.take_outgoing().decode()}")


def test_writes_then_replies_then_what_was_woken() -> None:
    events: list[str] = []
    connection, _ = make_connection()

    def wake() -> None:
        events.append("woken served")
        connection.reply_frame(b"pull")

    burst = Burst(Dispatcher(end_burst=lambda: events.append("written"), after_replies=wake))
    connection._transport = BurstTransport(burst, events)
    connection.reply_frame(b"send-")
    connection.reply_frame(b"ok")
    burst.end()
    assert events == ["written", "sent send-ok", "woken served", "sent pull"]


def test_no_reply_leaves_when_writing_fails() -> None:
    events: list[str] = []
    connection, _ = make_connection()

    def fail() -> None:
        raise StoreError("the disk is gone", path="p")

    burst = Burst(Dispatcher(end_burst=fail))
    connection._transport = BurstTransport(burst, events)
    connection.reply_frame(b"send ok")
    with pytest.raises(StoreError):
        burst.end()
    assert events == []


def test_flushing_twice_sends_once() -> None:
    events: list[str] = []
    connection, _ = make_connection()
    burst = Burst(Dispatcher())
    connection._transport = BurstTransport(burst, events)
    connection.reply_frame(b"x")
    burst.flush_replies()
    burst.flush_replies()
    assert events == ["sent x"]
