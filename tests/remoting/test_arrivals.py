"""What gives up a request lets the readers read first, as long as they have something, and not for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
import trio

from rocketpy.remoting.arrivals import QUIET_ROUNDS, let_readers_read

ROUNDS_MAX = 256


def never() -> bool:
    return False


async def rounds_of(is_done: Callable[[], bool], frames: Iterator[int]) -> int:
    """Return how many rounds of the loop a call takes."""
    rounds = -1  # the first look is before the first round

    def frames_received() -> int:
        nonlocal rounds
        rounds += 1
        return next(frames)

    await let_readers_read(is_done, frames_received)
    return rounds


@pytest.mark.parametrize("frames", [0, 1, 10])
async def test_it_goes_on_until_nothing_more_comes(frames: int) -> None:
    came = (min(number, frames) for number in count())
    assert await rounds_of(never, came) == frames + QUIET_ROUNDS


async def test_a_peer_that_never_pauses_delays_it_no_longer_than_its_bound() -> None:
    assert await rounds_of(never, count()) == ROUNDS_MAX


async def test_it_ends_as_soon_as_it_is_done_and_may_be_cancelled() -> None:
    states = iter([False, False, True])
    assert await rounds_of(lambda: next(states), count()) == 2
    with trio.CancelScope() as scope:
        scope.cancel()
        await rounds_of(never, count())
    assert scope.cancelled_caught
