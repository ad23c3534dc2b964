"""A Trio run that is a function of its seed: virtual time, and an order of tasks that the seed decides.

Trio shuffles tasks that are ready together. With a seed the shuffle is the same each time, in any process; other seeds
give other orders, so a race is found by the seeds that take it the other way. Nothing in such a run may wait for a
thread, a socket or a process: virtual time goes on as soon as no task is ready, and does not wait for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import trio
import trio.testing

from rocketpy.testing.sim.task_gate import TaskGates

T = TypeVar("T")

_scheduler = trio._core._run


def run_seeded(main: Callable[[], Awaitable[T]], *, seed: object) -> T:
    """Run an async function to its end and return what it returns; not from inside a Trio run."""
    with _seeded_scheduler(seed):
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[TaskGates()])


@contextmanager
def _seeded_scheduler(seed: object) -> Iterator[None]:
    """Let Trio order tasks by when they were created, and then shuffle them by the seed.

    Both belong to Trio's test support: pytest-trio and Hypothesis set the same two names.
    """
    shuffle: Random = _scheduler._r
    state, was_ordered = shuffle.getstate(), _scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    shuffle.seed(repr(seed))  # of a str the same in every process
    _scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    try:
        yield
    finally:
        shuffle.setstate(state)
        _scheduler._ALLOW_DETERMINISTIC_SCHEDULING = was_ordered  # type: ignore[misc]
