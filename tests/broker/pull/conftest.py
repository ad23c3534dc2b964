"""Fixtures of the tests of pulls."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.broker.message_broker import MessageBroker, open_message_broker


@pytest.fixture(params=["fast", "general"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MessageBroker]:
    """A broker with the usual settings, which serves pulls by one of its paths; for others a test opens its own."""
    async with open_message_broker(has_fast_paths=request.param == "fast") as broker:
        yield broker
