"""A round of a service that meets an unforeseen value in a peer's data is abandoned, and the next one runs."""

from __future__ import annotations

import pytest
import trio

from rocketpy.broker.clients.housekeeping import ClientHousekeepingService
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.monitoring.consumer_lag import ConsumerLagService
from rocketpy.broker.monitoring.slow_consumer import SlowConsumerService
from rocketpy.broker.monitoring.stats_service import BrokerStatsService
from rocketpy.errors import StoreError


class Rounds:
    """Stands in for the work of a round: the first fails, the third has come."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.count = 0
        self.third = trio.Event()

    def work(self, *_: object) -> bool:
        self.count += 1
        if self.count == 1:
            raise self.failure
        if self.count == 3:
            self.third.set()
        return True

    async def work_async(self, *_: object) -> bool:
        await trio.sleep(0.1)
        return self.work()


async def nothing(*_: object, **__: object) -> None:
    await trio.lowlevel.checkpoint()


def service_with(kind: type, rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return a service of which only the loop is left."""
    service = object.__new__(kind)
    if kind is ScheduleMessageService:
        monkeypatch.setattr(kind, "_begin", nothing)
        monkeypatch.setattr(kind, "_deliver_due", rounds.work_async)
        service._progress = type("Progress", (), {"run": staticmethod(nothing)})
    elif kind is BrokerStatsService:
        monkeypatch.setattr(kind, "_write_lines", nothing)
        monkeypatch.setattr(kind, "sample", rounds.work_async)
    elif kind is ConsumerLagService:
        monkeypatch.setattr(kind, "look", rounds.work_async)
    else:
        monkeypatch.setattr(kind, "scan" if kind is ClientHousekeepingService else "protect", rounds.work)
    return service


SERVICES = [
    BrokerStatsService,
    ClientHousekeepingService,
    ConsumerLagService,
    ScheduleMessageService,
    SlowConsumerService,
]


@pytest.mark.parametrize("kind", SERVICES)
async def test_a_round_that_fails_ends_alone(
    kind: type, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    rounds = Rounds(ZeroDivisionError("a peer's data"))
    service = service_with(kind, rounds, monkeypatch)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)  # type: ignore[attr-defined]
        await rounds.third.wait()
        nursery.cancel_scope.cancel()
    (line,) = [text for text in caplog.messages if "failed unexpectedly" in text]
    assert line.endswith("only that was given up")


@pytest.mark.parametrize("kind", SERVICES)
async def test_what_makes_the_store_doubtful_ends_the_broker(
    kind: type, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    rounds = Rounds(StoreError("torn", path="/f"))
    service = service_with(kind, rounds, monkeypatch)
    with pytest.RaisesGroup(StoreError, flatten_subgroups=True, allow_unwrapped=False):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)  # type: ignore[attr-defined]
            await rounds.third.wait()
