"""What every side of a broker stands on: its settings, its tables, its store, its clock and who it is.

Only what puts parts together (``*_side.py``, ``*_parts.py``) takes it whole. A part takes what it uses.
"""

from __future__ import annotations

from random import Random
from typing import Self

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.clock import Clock
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore


@attrs.frozen(kw_only=True)
class BrokerContext:
    """The context of one broker, from an open store on until the end."""

    config: BrokerConfig
    store_config: MessageStoreConfig
    tables: Tables
    store: MessageStore
    port: int  # of the listener that the nameservers are told of
    store_host: bytes  # the same address as a record has it
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
        store_host: bytes,
        clock: Clock,
        randomness: Random,
    ) -> Self:
        """Return the context of a broker that was told ``settings``."""
        return cls(
            config=settings.broker,
            store_config=settings.store,
            tables=tables,
            store=store,
            port=port,
            store_host=store_host,
            clock=clock,
            randomness=randomness,
        )

    @property
    def broker_addr(self) -> str:
        """The address that the nameservers are told."""
        return f"{self.config.broker_ip1}:{self.port}"

    @property
    def ha_server_addr(self) -> str:
        """The address that slaves would be told."""
        return f"{self.config.broker_ip2}:{self.port + 1}"
