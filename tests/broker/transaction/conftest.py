"""Fixtures of the tests of transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.broker.transaction.transaction_broker import TransactionBroker, open_transaction_broker


@pytest.fixture
async def broker() -> AsyncIterator[TransactionBroker]:
    """A broker with the usual settings; for others a test opens its own."""
    async with open_transaction_broker() as broker:
        yield broker
