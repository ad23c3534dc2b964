"""The lines of each second and each minute."""

from __future__ import annotations

import logging
from typing import cast

import pytest
import trio
import trio.testing

from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.broker.monitoring.water_mark import WaterMarkService
from rocketpy.store.message_store import MessageStore


class Figures:
    def __init__(self) -> None:
        self.made_count = 0

    def minute_lines(self) -> tuple[str, str]:
        self.made_count += 1
        return "[STORETPS] ...", "[PAGECACHERT] ..."


class Store:
    dispatch_behind = 7

    def __init__(self) -> None:
        self.figures = Figures()


class WaitingSends:
    """The sends that wait for the disk, and how often they were counted."""

    def __init__(self) -> None:
        self.counted_count = 0

    def __call__(self) -> int:
        self.counted_count += 1
        return 3


async def lines_of(
    seconds: float, caplog: pytest.LogCaptureFixture, store: Store | None = None, sends: WaitingSends | None = None
) -> list[str]:
    service = WaterMarkService(
        store=cast(MessageStore, store or Store()), lateness=LatenessService(), waiting_sends=sends or WaitingSends()
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return [record.getMessage() for record in caplog.records]


async def test_water_marks_come_every_second(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker.watermark")
    lines = [line for line in await lines_of(12.5, caplog) if "WATERMARK" in line]
    assert (
        lines
        == [
            "[WATERMARK] Send Queue Size: 3 SlowTimeMills: 0",
            "[WATERMARK] Pull Queue Size: 0 SlowTimeMills: 0",
            "[WATERMARK] Query Queue Size: 0 SlowTimeMills: 0",
            "[WATERMARK] Transaction Queue Size: 0 SlowTimeMills: 0",
        ]
        * 3
    )


async def test_figures_come_every_minute(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker")
    caplog.set_level(logging.INFO, logger="rocketpy.store")
    lines = [line for line in await lines_of(80, caplog) if "WATERMARK" not in line]
    assert lines == ["dispatch behind commit log 7 bytes", "[STORETPS] ...", "[PAGECACHERT] ..."] * 2


@pytest.mark.parametrize(
    ("level", "store_level", "water_marks", "minutes"),
    [
        (logging.INFO, logging.INFO, 71, 2),
        (logging.INFO, logging.WARNING, 71, 0),
        (logging.WARNING, logging.WARNING, 0, 0),
    ],
    ids=["kept", "of the store not kept", "not kept"],
)
async def test_lines_of_a_disabled_log_are_not_formatted(
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
    level: int,
    store_level: int,
    water_marks: int,
    minutes: int,
) -> None:
    """Not only not written: working it out costs too."""
    for name in ("rocketpy.broker", "rocketpy.broker.watermark"):
        caplog.set_level(level, logger=name)
    caplog.set_level(store_level, logger="rocketpy.store")
    store, sends = Store(), WaitingSends()
    await lines_of(80.5, caplog, store, sends)
    assert (sends.counted_count, store.figures.made_count) == (water_marks, minutes)


async def test_where_no_water_marks_are_kept_no_line_comes_by_itself(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """Without a directory for logs: the broker and the store tell what happens, and nothing else."""
    caplog.set_level(logging.INFO, logger="rocketpy.broker")
    caplog.set_level(logging.INFO, logger="rocketpy.store")
    caplog.set_level(logging.WARNING, logger="rocketpy.broker.watermark")
    caplog.handler.setLevel(logging.INFO)
    assert logging.getLogger("rocketpy.store").isEnabledFor(logging.INFO), "it would be kept"
    assert await lines_of(80, caplog) == []


async def test_lines_that_cannot_be_made_end_no_broker(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.broker.watermark")
    sends = WaitingSends()

    def fail() -> tuple[str, str]:
        raise ZeroDivisionError

    store = Store()
    caplog.set_level(logging.INFO, logger="rocketpy.store")
    store.figures.minute_lines = fail  # type: ignore[method-assign]
    lines = await lines_of(15, caplog, store, sends)
    assert len([line for line in lines if line.startswith("writing the water marks")]) == 1
    assert sends.counted_count >= 4, "the next second has its lines"
