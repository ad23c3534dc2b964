"""Which broker is asked next, and how long."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingConnectError, RemotingTimeoutError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.spark.live.attempts import PAUSE_MAX_S, PAUSE_MIN_S, Attempts, Failure
from rocketpy.spark.live.pulls import LaggingReplicaError

PATIENCE_S = 10.0


@attrs.define
class Time:
    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def attempts(time: Time, *addresses: str) -> Attempts:
    return Attempts(addresses, PATIENCE_S, clock=lambda: time.now, sleep=time.sleep)


def test_each_broker_in_turn_and_then_those_that_were_lost() -> None:
    time = Time()
    asked = attempts(time, "slave", "master")
    order = []
    failures: list[Failure] = [LaggingReplicaError("lags"), RemotingConnectError("refused"), RemotingTimeoutError("-")]
    for failure in failures:
        address = asked.next_address()
        assert address is not None
        order.append(address)
        asked.failed(address, failure)
    assert order == ["slave", "master", "master"]
    assert time.now == PAUSE_MIN_S
    assert {address: str(failure) for address, failure in asked.failures.items()} == {"slave": "lags", "master": "-"}


def test_patience_ends_and_begins_anew_with_what_is_read() -> None:
    time = Time()
    asked = attempts(time, "b")
    for _ in range(2):
        begun, pauses = time.now, []
        while (address := asked.next_address()) is not None:
            pauses.append(time.now - begun)
            asked.failed(address, RemotingConnectError("refused"))
        assert PATIENCE_S - PAUSE_MAX_S <= time.now - begun <= PATIENCE_S
        assert pauses[1] == pytest.approx(PAUSE_MIN_S)
        assert len(pauses) < 20
        asked.progressed()
        assert not asked.failures


@pytest.mark.parametrize(
    "failure",
    [
        LaggingReplicaError("lags"),
        RemoteProtocolError("garbage"),
        BrokerError(ResponseCode.NO_PERMISSION, "no", "b"),
        BrokerError(ResponseCode.SYSTEM_ERROR, "signature", "b"),
    ],
)
def test_what_a_broker_has_answered_it_is_not_asked_again(failure: Failure) -> None:
    time = Time()
    asked = attempts(time, "b")
    asked.failed("b", failure)
    assert asked.next_address() is None
    assert time.now == 0


def test_a_broker_on_its_way_is_asked_again() -> None:
    asked = attempts(Time(), "b")
    asked.failed("b", BrokerError(ResponseCode.SERVICE_NOT_AVAILABLE, "shutting down", "b"))
    assert asked.next_address() == "b"
