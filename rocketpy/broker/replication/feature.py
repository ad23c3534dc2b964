"""The replication feature: serves this broker's log to slaves and, on a slave, follows the master's.

Composition only; no logic. Every role listens on the replication port, as in RocketMQ: a slave of a slave works, but
only a configured ``haMasterAddress`` makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature, Service
from rocketpy.broker.replication.accept_socket import AcceptSocketService
from rocketpy.broker.replication.brokers_of_one_id import BrokersOfOneId
from rocketpy.broker.replication.figures import ReplicationFigures
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.broker.replication.master_search import MasterSearch
from rocketpy.broker.replication.replication_log import MasterLog, SlaveLog
from rocketpy.broker.replication.signed_requests import with_account
from rocketpy.broker.role_settings import configured_ha_master
from rocketpy.errors import RemotingConnectError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.limits.allow_list import networks
from rocketpy.remoting.network import Listener, Network
from rocketpy.remoting.nowait_stream import NowaitStream, nowait_stream
from rocketpy.runner import RunBlocking
from rocketpy.store.ha.client import HAClient, HAState
from rocketpy.store.ha.connection import HATimes

if TYPE_CHECKING:  # a broker that is no slave does not load it
    from rocketpy.broker.replication.comparison import ComparisonStatistics, LogComparison


class ReplicationFeature(Feature):
    """The services of both sides of replication, and their figures."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        client: RemotingClient,
        network: Network,
        listeners: Sequence[Listener],
        run_blocking: RunBlocking,
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
            run_blocking=run_blocking,
        )
        services: list[Service] = [
            self.accept,
            self.ids,
            MasterLog(slaves=store.ha_service.slaves_by_peer, end_offset=lambda: store.log_source.end_offset),
        ]
        self.ha_client: HAClient | None = None
        compared: Callable[[], ComparisonStatistics] | None = None
        if context.is_slave:
            comparison = _comparison(context, client, self.master_addresses)
            compared = comparison.statistics
            self.ha_client = _ha_client(context, network, self.master_addresses, comparison)
            self.master_search = MasterSearch(self.master_addresses, statistics=self.ha_client.statistics)
            services.append(SlaveLog(statistics=self.ha_client.statistics, end_offset=lambda: store.wrote_offset))
            services.append(self.ha_client)
        self.services = tuple(services)
        self._figures = ReplicationFigures(
            role=context.store_config.broker_role,
            ha_service=store.ha_service,
            accepted=self.accept.statistics,
            end_offset=lambda: store.log_source.end_offset,
            ha_client=self.ha_client,
            compared=compared,
            master_addresses=self.master_addresses,
            others_of_this_id=lambda: self.ids.others,
        )

    def is_following(self) -> bool:
        """Whether this is a slave whose log was compared with its master's, and receives it now."""
        return self.ha_client is not None and self.ha_client.statistics().state is HAState.FOLLOWING

    def figures(self) -> dict[str, str]:
        """Return role, slaves and state."""
        return self._figures()


def _comparison(context: BrokerContext, client: RemotingClient, master_addresses: MasterAddresses) -> LogComparison:
    """Return what compares a slave's log with its master's; loaded on slaves alone."""
    from rocketpy.broker.replication.comparison import LogComparison, client_address_of

    return LogComparison(
        log=context.store.recorded_log,
        client=with_account(client, accounts=context.tables.accounts, access_key=context.config.replication_account),
        client_address=partial(client_address_of, master_addresses),
        request_cut=context.store.order_cut,  # which says what forbids it
    )


def _ha_client(
    context: BrokerContext, network: Network, master_addresses: MasterAddresses, comparison: LogComparison
) -> HAClient:
    log = context.store.following_log
    assert log is not None, "a slave's store has one"
    return HAClient(
        log=log,
        address=lambda: master_addresses.ha_server_addr,
        address_changed=master_addresses.wait_changed,
        connect=partial(_connect, network),
        compare=comparison.compare,
        settings=partial(HATimes.of, context.store_config),
        randomness=context.randomness,
    )


async def _connect(network: Network, address: str) -> NowaitStream:
    """Connect, with the error that a store expects, which knows no network."""
    try:
        return nowait_stream(await network.connect(address))
    except RemotingConnectError as failure:
        raise OSError(str(failure)) from failure
