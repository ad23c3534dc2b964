"""Steps of a run: an action is done when the call returns, and each step is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import trio

from rocketpy.testing.pair.steps import Steps


@contextmanager
def steps(looks: list[float]) -> Iterator[Steps]:
    """Steps of a run in which a task does something every second."""

    async def tick() -> None:
        while True:
            await trio.sleep(1)

    opened = Steps(
        begin=lambda nursery: nursery.start_soon(tick), look=lambda: looks.append(round(trio.current_time(), 1))
    )
    opened.open()
    try:
        yield opened
    finally:
        opened.close()


def test_an_action_is_done_when_the_call_returns() -> None:
    looks: list[float] = []
    with steps(looks) as run:
        begin = trio.current_time()
        run.do(partial(trio.sleep, 2.5))
        assert trio.current_time() - begin == pytest.approx(2.5)
        assert len(looks) == 1


def test_nothing_moves_without_a_step() -> None:
    looks: list[float] = []
    with steps(looks) as run:
        begin = trio.current_time()
        run.settle()
        assert trio.current_time() == begin
        run.pass_time(3)
        assert trio.current_time() - begin == pytest.approx(3)
        run.run_until(lambda: trio.current_time() >= begin + 5, 60)
        assert trio.current_time() - begin == pytest.approx(5)
        assert len(looks) == 3


def test_what_an_action_raises_is_raised_by_the_call() -> None:
    async def fail() -> None:
        raise ValueError("as expected")

    with pytest.raises(BaseExceptionGroup) as raised, steps([]) as run:
        run.do(fail)
    assert raised.group_contains(ValueError, match="as expected")


def test_the_run_can_be_closed_at_any_moment() -> None:
    with steps([]):
        pass
    with steps([]) as run:
        run.settle()
