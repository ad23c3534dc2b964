"""Who a broker says it is."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs

from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from tests.broker.tables_of_a_broker import context_of, make_tables

NO_STORE = cast("MessageStore", None)


def test_addresses_are_of_the_two_networks_that_the_settings_name() -> None:
    """brokerIP1 is where clients come, brokerIP2 where slaves come: one port above, as BrokerController has it."""
    tables = make_tables(Path("/nowhere"), broker_ip1="10.0.0.1", broker_ip2="192.168.0.1")
    context = attrs.evolve(context_of(tables, NO_STORE, MessageStoreConfig()), port=30_000, ha_port=30_001)
    assert context.broker_addr == "10.0.0.1:30000"
    assert context.ha_server_addr == "192.168.0.1:30001"
