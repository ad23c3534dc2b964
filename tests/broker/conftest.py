"""Fixtures of the broker's tests; what they are made of is in ``tables_of_a_broker``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.broker.tables_of_a_broker import Tables, make_tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return make_tables(tmp_path)


@pytest.fixture
def tables_with(tmp_path: Path) -> Callable[..., Tables]:
    def make(**settings: object) -> Tables:
        return make_tables(tmp_path, **settings)

    return make


@pytest.fixture
def broker(tmp_path: Path) -> BrokerOnBytes:
    return BrokerOnBytes(tmp_path)


@pytest.fixture
def broker_with(tmp_path: Path) -> Callable[..., BrokerOnBytes]:
    def make(**settings: object) -> BrokerOnBytes:
        return BrokerOnBytes(tmp_path, **settings)

    return make
