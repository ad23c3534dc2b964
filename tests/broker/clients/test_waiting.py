"""Requests that wait for another client are counted, of all and of one connection, and always given back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from rocketpy.broker.clients.waiting import WaitingRequests
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from tests.broker.broker_on_bytes import BrokerOnBytes


def test_both_bounds_hold_and_what_ends_makes_room(broker: BrokerOnBytes) -> None:
    waiting = WaitingRequests("things wait", total_max=3, of_connection_max=2)
    one, two = broker.connect(), broker.connect()
    with ExitStack() as counted:
        counted.enter_context(waiting.counted(one))
        with waiting.counted(one):
            for connection, why in ((one, f"2 things wait at {one.peer}, the limit is 2"),):
                with pytest.raises(RequestError) as refused:
                    counted.enter_context(waiting.counted(connection))
                assert refused.value.response_code == ResponseCode.SYSTEM_BUSY
                assert refused.value.remark == f"[OVERLOAD]system busy, start flow control for a while: {why}"
            counted.enter_context(waiting.counted(two))
            with pytest.raises(RequestError, match="3 things wait, the limit is 3"):
                counted.enter_context(waiting.counted(two))
        counted.enter_context(waiting.counted(one))
    with pytest.raises(KeyError), waiting.counted(one):
        raise KeyError("the request fails")
    assert (waiting._total, waiting._of) == (0, {})
