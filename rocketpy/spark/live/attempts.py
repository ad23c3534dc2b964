"""Which broker of a part is asked next: each in turn, and those whose connection was lost again, for a bounded time.

A broker that restarts is away for seconds, and a read that waits for it is worth more than one that fails. A refusal,
garbage, and a slave that lags are answers: such a broker is not asked again before another one has given something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.spark.live.pulls import LaggingReplicaError

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 1.0

Failure = RemotingError | RemoteProtocolError | BrokerError | LaggingReplicaError
FAILURES = (RemotingError, RemoteProtocolError, BrokerError, LaggingReplicaError)

_OF_A_BROKER_ON_ITS_WAY = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY)


@attrs.define(eq=False)
class Attempts:
    """State of one part. ``failures`` are those since something was read last, by address."""

    addresses: Sequence[str]
    patience_s: float
    """How long lost connections are tried again after the first failure."""
    _clock: Callable[[], float] = attrs.field(default=time.monotonic, alias="clock", kw_only=True)
    _sleep: Callable[[float], None] = attrs.field(default=time.sleep, alias="sleep", kw_only=True)
    failures: dict[str, Failure] = attrs.field(factory=dict, init=False)
    _tried: set[str] = attrs.field(factory=set, init=False)  # in this round
    _gives_up_at: float = attrs.field(default=0.0, init=False)
    _pause_s: float = attrs.field(default=PAUSE_MIN_S, init=False)

    def next_address(self) -> str | None:
        """Return the broker to ask, after a pause if all were asked; None if none can help any more."""
        if len(self._tried) == len(self.addresses):
            lost = {address for address, failure in self.failures.items() if _may_pass(failure)}
            if not lost or self._clock() + self._pause_s > self._gives_up_at:
                return None
            self._sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
            self._tried -= lost
        return next(address for address in self.addresses if address not in self._tried)

    def failed(self, address: str, failure: Failure) -> None:
        """Note that a broker has given nothing."""
        if not self.failures:
            self._gives_up_at = self._clock() + self.patience_s
        self.failures[address] = failure
        self._tried.add(address)

    def progressed(self) -> None:
        """Note that something was read: every broker has its chance again."""
        if self.failures:
            self.failures.clear()
            self._tried.clear()
            self._pause_s = PAUSE_MIN_S


def _may_pass(failure: Failure) -> bool:
    if isinstance(failure, BrokerError):
        return failure.response_code in _OF_A_BROKER_ON_ITS_WAY
    return isinstance(failure, RemotingError)
