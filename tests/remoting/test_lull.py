"""When a hub may wait for its next request itself; what it does meanwhile is in test_hub."""

from __future__ import annotations

import os

import pytest

from rocketpy.remoting.lull import LULL_SECONDS, QUICK_SECONDS, SPIN_SECONDS, Lull, spin_seconds_here
from tests.remoting.stepping_clock import SteppingClock

SOON = QUICK_SECONDS / 2


def come_back_after(lull: Lull, seconds: float, *, other_bursts: int = 0) -> float:
    lull.leave(100.0, 7)
    return lull.come_back(100.0 + seconds, 7 + other_bursts)


def come_back_until_it_waits(lull: Lull) -> int:
    """Return how many quick returns a wait takes."""
    count = 1
    while not come_back_after(lull, SOON):
        count += 1
    return count


def test_the_next_request_is_waited_for_after_some_short_pauses() -> None:
    lull = Lull()
    assert [come_back_after(lull, SOON) for _ in range(6)] == [0, 0, 0, LULL_SECONDS, LULL_SECONDS, LULL_SECONDS]


def test_after_a_longer_pause_it_is_not() -> None:
    lull = Lull()
    come_back_until_it_waits(lull)
    assert come_back_after(lull, QUICK_SECONDS * 1.01) == 0
    assert come_back_until_it_waits(lull) == 4
    assert come_back_after(lull, 60) == 0


@pytest.mark.parametrize(("quick_returns", "waits"), [(50, True), (10, False)])
def test_peers_are_quick_although_a_return_is_slow_now_and_then(quick_returns: int, waits: bool) -> None:
    """Otherwise a hub that needs many quick returns, after vain waits, would never wait again on a busy machine."""
    lull = Lull()
    vain_waits(lull, 10)
    assert come_back_until_it_waits(lull) == 1024
    lull.note(is_vain=True)
    returns = ([SOON] * quick_returns + [QUICK_SECONDS * 2]) * 100
    assert any(come_back_after(lull, seconds) for seconds in returns) is waits


def test_it_is_not_while_something_else_is_served() -> None:
    """A second hub, a stream or a task that answers late would get one turn per slice."""
    lull = Lull()
    come_back_until_it_waits(lull)
    assert come_back_after(lull, SOON, other_bursts=1) == 0
    assert come_back_until_it_waits(lull) == 4


def test_without_seconds_there_is_no_wait() -> None:
    lull = Lull(0)
    assert [come_back_after(lull, SOON) for _ in range(10)] == [0] * 10


def vain_waits(lull: Lull, count: int) -> list[int]:
    """Return how many quick returns each wait takes, none of which finds a request."""
    took = []
    for _ in range(count):
        took.append(come_back_until_it_waits(lull))
        lull.note(is_vain=True)
    return took


def test_each_vain_wait_makes_the_next_one_rarer_up_to_a_bound() -> None:
    assert vain_waits(Lull(), 11) == [4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]


def test_a_wait_that_is_not_vain_makes_up_for_all_before() -> None:
    lull = Lull()
    vain_waits(lull, 5)
    come_back_until_it_waits(lull)
    lull.note(is_vain=False)
    assert come_back_until_it_waits(lull) == 1
    lull.note(is_vain=True)
    assert come_back_until_it_waits(lull) == 8


class PlannedEpoll:
    """An epoll descriptor that has something from a look on, and counts looks and sleeps."""

    def __init__(self, *, ready_from: int = 0) -> None:
        self.ready_from = ready_from
        """The number of the first look that finds something; 0 if none does."""
        self.look_count = 0
        self.sleep_count = 0

    def poll(self, timeout: float, events_max: int) -> list[tuple[int, int]]:
        if timeout:
            self.sleep_count += 1
            return []
        self.look_count += 1
        return READY if 0 < self.ready_from <= self.look_count else []


READY = [(7, 1)]
LATE = SteppingClock(SPIN_SECONDS * 1.01)
"""A clock by which a spin has one look."""


def wait(lull: Lull, epoll: PlannedEpoll, clock: SteppingClock = LATE) -> list[tuple[int, int]]:
    return lull.wait(epoll.poll, 256, LULL_SECONDS, clock)


def sleeps_before_spins(lull: Lull, count: int) -> list[int]:
    """Return how many waits sleep at once before each one that spins, all of them in vain."""
    epoll = PlannedEpoll()
    sleeping: list[int] = []
    while len(sleeping) < count:
        number = 0
        while not epoll.look_count:
            wait(lull, epoll)
            number += 1
        sleeping.append(number - 1)
        epoll.look_count = 0
    return sleeping


def test_a_request_that_comes_during_a_spin_costs_no_sleep() -> None:
    lull, epoll = Lull(), PlannedEpoll(ready_from=3)
    assert wait(lull, epoll, SteppingClock()) == READY
    assert wait(lull, epoll, SteppingClock()) == READY  # it spins again
    assert (epoll.look_count, epoll.sleep_count) == (4, 0)


@pytest.mark.parametrize(
    ("step", "looks_max"),
    [(SPIN_SECONDS / 10, 11), (0.0, 10_000)],
    ids=["ends by time", "ends although the clock stands still"],
)
def test_a_spin_in_vain_ends_in_a_sleep(step: float, looks_max: int) -> None:
    lull, epoll = Lull(), PlannedEpoll()
    assert wait(lull, epoll, SteppingClock(step)) == []
    assert 9 <= epoll.look_count <= looks_max
    assert epoll.sleep_count == 1


def test_each_vain_spin_lets_more_waits_sleep_at_once_up_to_a_bound() -> None:
    assert sleeps_before_spins(Lull(), 13) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024]


def test_a_spin_that_finds_a_request_makes_up_for_all_before() -> None:
    lull = Lull()
    sleeps_before_spins(lull, 6)
    while not wait(lull, PlannedEpoll(ready_from=1)):
        pass
    assert sleeps_before_spins(lull, 3) == [0, 1, 2]


def test_without_seconds_no_wait_spins() -> None:
    lull, epoll = Lull(spin_seconds=0.0), PlannedEpoll()
    assert [wait(lull, epoll) for _ in range(5)] == [[]] * 5
    assert (epoll.look_count, epoll.sleep_count) == (0, 5)


@pytest.mark.parametrize(("processors", "seconds"), [({0}, 0.0), ({3}, 0.0), ({0, 1}, SPIN_SECONDS)])
def test_a_process_with_one_processor_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, processors: set[int], seconds: float
) -> None:
    """It would keep its peer from running."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: processors)
    assert spin_seconds_here() == seconds
