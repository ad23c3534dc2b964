"""When a hub may wait for its next request itself; what it does meanwhile is in test_hub."""

from __future__ import annotations

import os

import pytest

from rocketpy.remoting.lull import LULL_SECONDS, QUICK_SECONDS, SPIN_SECONDS, Lull, spin_seconds_here

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


def sleeping_waits(lull: Lull, count: int) -> list[int]:
    """Return how many waits sleep at once before each one that spins, all of them in vain."""
    sleeping = []
    for _ in range(count):
        number = 0
        while not lull.spin_seconds():
            number += 1
        sleeping.append(number)
        lull.note_spin(is_vain=True)
    return sleeping


def test_each_vain_spin_lets_more_waits_sleep_at_once_up_to_a_bound() -> None:
    assert sleeping_waits(Lull(), 13) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024]


def test_a_spin_that_finds_a_request_makes_up_for_all_before() -> None:
    lull = Lull()
    sleeping_waits(lull, 6)
    while not lull.spin_seconds():
        pass
    lull.note_spin(is_vain=False)
    assert sleeping_waits(lull, 3) == [0, 1, 2]


def test_without_seconds_no_wait_spins() -> None:
    lull = Lull(spin_seconds=0.0)
    assert [lull.spin_seconds() for _ in range(5)] == [0.0] * 5


@pytest.mark.parametrize(("processors", "seconds"), [({0}, 0.0), ({3}, 0.0), ({0, 1}, SPIN_SECONDS)])
def test_a_process_with_one_processor_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, processors: set[int], seconds: float
) -> None:
    """It would keep its peer from running."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: processors)
    assert spin_seconds_here() == seconds
