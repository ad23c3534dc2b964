"""Fixtures of the tests of sends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.broker.message_broker import MessageBroker, open_message_broker


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    """A broker with the usual settings; for others a test opens its own."""
    async with open_message_broker() as broker:
        yield broker
