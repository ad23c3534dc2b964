"""A run under a host that is only a list: nothing happens between two steps, and everything in them."""

from __future__ import annotations

import pytest
import trio

from rocketpy.testing.sim.stepped_run import SteppedRun


class Diary:
    """What happened when, and how much time has passed."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, str]] = []
        self.seconds = 0.0

    def note(self, what: str) -> None:
        self.entries.append((trio.current_time(), what))

    def time_passes(self, seconds: float) -> None:
        self.seconds += seconds


async def tick(diary: Diary) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat, diary, 0.5)
        nursery.start_soon(beat, diary, 0.8)


async def beat(diary: Diary, seconds: float) -> None:
    while True:
        await trio.sleep(seconds)
        diary.note(f"{seconds}")


def test_things_happen_in_their_order_while_time_passes_and_not_before() -> None:
    diary = Diary()
    run = SteppedRun(lambda: tick(diary), time_passes=diary.time_passes)
    assert not diary.entries
    run.settle()
    assert not diary.entries
    run.pass_time(1.7)
    assert diary.entries == [(0.5, "0.5"), (0.8, "0.8"), (1.0, "0.5"), (1.5, "0.5"), (1.6, "0.8")]
    assert diary.seconds == pytest.approx(1.7)
    run.pass_time(0.1)
    assert len(diary.entries) == 5
    run.cancel()
    assert run.is_over
    run.result()


def test_the_host_may_call_what_a_task_may_call() -> None:
    event, woken = trio.Event(), []

    async def main() -> None:
        await event.wait()
        woken.append(trio.current_time())

    run = SteppedRun(main, time_passes=lambda seconds: None)
    run.pass_time(3.0)
    assert not woken
    event.set()
    run.settle()
    assert woken == [3.0]
    assert run.is_over


def test_a_failure_is_kept_until_it_is_read() -> None:
    async def main() -> None:
        await trio.sleep(1)
        raise OSError("a disk of straw")

    run = SteppedRun(main, time_passes=lambda seconds: None)
    run.pass_time(5)
    assert run.is_over
    with pytest.raises(OSError, match="straw"):
        run.result()


def test_waiting_for_a_condition_takes_no_longer_than_that() -> None:
    diary = Diary()
    run = SteppedRun(lambda: tick(diary), time_passes=diary.time_passes)
    assert run.run_until(lambda: len(diary.entries) == 3, seconds_max=10)
    assert diary.seconds == pytest.approx(1.0)
    assert not run.run_until(lambda: False, seconds_max=2)
    assert diary.seconds < 3.1
    run.cancel()


def test_a_run_that_waits_for_nothing_ends_a_wait() -> None:
    run = SteppedRun(trio.sleep_forever, time_passes=lambda seconds: None)
    assert not run.run_until(lambda: False, seconds_max=1e9)
    run.pass_time(1e9)
    run.cancel()


def test_a_run_that_is_never_idle_is_noticed() -> None:
    async def main() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    run = SteppedRun(main, time_passes=lambda seconds: None)
    with pytest.raises(AssertionError, match="still busy"):
        run.settle()
    run.cancel()


def test_what_does_not_end_when_cancelled_is_noticed() -> None:
    event = trio.Event()

    async def main() -> None:
        with trio.CancelScope(shield=True):
            await event.wait()

    run = SteppedRun(main, time_passes=lambda seconds: None)
    run.settle()
    with pytest.raises(AssertionError, match="has not ended"):
        run.cancel()
    event.set()
    run.settle()
    assert run.is_over
