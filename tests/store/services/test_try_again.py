"""Calls that are repeated until there are descriptors again."""

from __future__ import annotations

import pytest
import trio.testing

from rocketpy.errors import DescriptorShortageError, StoreError
from rocketpy.runner import run_inline
from rocketpy.store.services.try_again import SHORTAGE_PAUSE_SECONDS, call_until_done


async def test_a_call_is_repeated_until_it_meets_no_shortage(autojump_clock: trio.testing.MockClock) -> None:
    failures = [DescriptorShortageError("cannot open", path="/d")] * 3

    def call(path: str) -> str:
        if failures:
            raise failures.pop()
        return path

    began = trio.current_time()
    assert await call_until_done(run_inline, call, "/d") == "/d"
    assert trio.current_time() - began == pytest.approx(3 * SHORTAGE_PAUSE_SECONDS)


async def test_another_failure_is_final() -> None:
    def call() -> None:
        raise StoreError("the disk is gone", path="/d")

    with pytest.raises(StoreError, match="gone"):
        await call_until_done(run_inline, call)
