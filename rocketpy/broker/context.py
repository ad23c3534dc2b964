"""Dependencies shared by all features of a broker: settings, tables, store, clock, addresses.

Only a composition root (each ``feature.py``, and the wiring) takes the context whole. A processor or service takes the
collaborators that it uses.
"""

from __future__ import annotations

from random import Random
from typing import Self

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.clock import Clock
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.message_store import MessageStore


@attrs.frozen(kw_only=True)
class BrokerContext:
    """The context of one broker, from the opening of its store until its end."""

    config: BrokerConfig
    store_config: MessageStoreConfig
    tables: Tables
    store: MessageStore
    port: int  # of the listener whose address is registered
    ha_port: int  # of the listener for slaves
    store_host: bytes  # the same address in the form of a record
    clock: Clock
    randomness: Random

    @classmethod
    def of(
        cls,
        settings: BrokerSettings,
        tables: Tables,
        store: MessageStore,
        *,
        port: int,
        ha_port: int,
        store_host: bytes,
        clock: Clock,
        randomness: Random,
    ) -> Self:
        """Build the context from loaded settings."""
        return cls(
            config=settings.broker,
            store_config=settings.store,
            tables=tables,
            store=store,
            port=port,
            ha_port=ha_port,
            store_host=store_host,
            clock=clock,
            randomness=randomness,
        )

    @property
    def is_slave(self) -> bool:
        """Whether the broker follows a master: it stores nothing of clients, and takes topics and groups from there."""
        return self.store_config.broker_role is BrokerRole.SLAVE

    @property
    def broker_addr(self) -> str:
        """The address that the broker registers at the nameservers."""
        return f"{self.config.broker_ip1}:{self.port}"

    @property
    def ha_server_addr(self) -> str:
        """The address that slaves replicate from."""
        return f"{self.config.broker_ip2}:{self.ha_port}"
