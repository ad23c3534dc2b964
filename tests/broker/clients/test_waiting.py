"""Requests that wait for another client are counted, of all and of one connection, and always given back."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import cast

import pytest

from rocketpy.broker.clients.waiting import WaitingRequests
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.connection import Connection
from tests.forgotten import is_forgotten


class Peer:
    """As much of a connection as is counted and named."""

    peer = "10.0.0.1:1"


def connect() -> Connection:
    return cast(Connection, Peer())


def test_both_bounds_hold_and_what_ends_makes_room() -> None:
    waiting = WaitingRequests("things wait", total_max=3, of_connection_max=2)
    one, two = connect(), connect()
    with ExitStack() as counted:
        counted.enter_context(waiting.counted(one))
        with waiting.counted(one):
            with pytest.raises(RequestError) as refused:
                counted.enter_context(waiting.counted(one))
            assert refused.value.response_code == ResponseCode.SYSTEM_BUSY
            assert refused.value.remark == (
                "[OVERLOAD]system busy, start flow control for a while: 2 things wait at 10.0.0.1:1, the limit is 2"
            )
            counted.enter_context(waiting.counted(two))
            with pytest.raises(RequestError, match="3 things wait, the limit is 3"):
                counted.enter_context(waiting.counted(two))
        counted.enter_context(waiting.counted(one))
    with pytest.raises(KeyError), waiting.counted(one):
        raise KeyError("the request fails")
    with ExitStack() as counted:
        for connection in (one, one, two):
            counted.enter_context(waiting.counted(connection))


def test_a_connection_without_waiting_requests_is_forgotten() -> None:
    waiting = WaitingRequests("things wait", total_max=3, of_connection_max=2)
    connection = connect()
    reference = weakref.ref(connection)
    with waiting.counted(connection), waiting.counted(connection):
        pass
    del connection
    assert is_forgotten(reference)
