"""The replication feature: serves this broker's log to slaves and, on a slave, follows the master's.

Composition only; no logic. Every role listens on the replication port, as in RocketMQ: a slave of a slave works, but
only a configured ``haMasterAddress`` makes one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature, Service
from rocketpy.broker.replication.accept_socket import AcceptSocketService
from rocketpy.broker.replication.brokers_of_one_id import BrokersOfOneId
from rocketpy.broker.replication.figures import ReplicationFigures
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.broker.replication.master_search import MasterSearch
from rocketpy.broker.replication.replication_log import MasterLog
from rocketpy.broker.role_settings import configured_ha_master
from rocketpy.remoting.allow_list import networks
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.network import Listener, Network
from rocketpy.store.ha.client import HAClient


class ReplicationFeature(Feature):
    """The services of both sides of replication, and their figures."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        client: RemotingClient,
        network: Network,
        listeners: Sequence[Listener],
    ) -> None:
        store = context.store
        self.master_addresses = MasterAddresses(
            own_addr=context.broker_addr, ha_master_address=configured_ha_master(context.store_config)
        )
        self.master_search: MasterSearch | MasterAddresses = self.master_addresses
        self.accept = AcceptSocketService(
            listeners=listeners, serve=store.ha_service.serve, allowed=networks(context.config.ha_allow_list)
        )
        self.ids = BrokersOfOneId(
            config=context.config,
            namesrv_addresses=context.config.namesrv_addresses,
            broker_addr=context.broker_addr,
            client=client,
        )
        services: list[Service] = [
            self.accept,
            self.ids,
            MasterLog(slaves=store.ha_service.slaves_by_peer, end_offset=lambda: store.log_source.end_offset),
        ]
        self.ha_client: HAClient | None = None
        self.services = tuple(services)
        self._figures = ReplicationFigures(
            role=context.store_config.broker_role,
            ha_service=store.ha_service,
            accepted=self.accept.statistics,
            end_offset=lambda: store.log_source.end_offset,
            ha_client=self.ha_client,
            master_addresses=self.master_addresses,
            others_of_this_id=lambda: self.ids.others,
        )

    def figures(self) -> dict[str, str]:
        """Return role, slaves and state."""
        return self._figures()
