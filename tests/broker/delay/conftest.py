"""Fixtures of the tests of delayed messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio.testing

from tests.broker.delay.delayed import DelayedMessages, open_delayed


@pytest.fixture
async def delayed(autojump_clock: trio.testing.MockClock) -> AsyncIterator[DelayedMessages]:
    """A store with the usual settings, whose delayed messages are delivered; for others a test opens its own."""
    async with open_delayed() as delayed:
        yield delayed
