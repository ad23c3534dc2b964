"""Rows of replication in GET_BROKER_RUNTIME_INFO.

=====================  ================================================================================================
brokerRole             ASYNC_MASTER, SYNC_MASTER or SLAVE
brokerIdConflict       addresses of other live brokers with this name and id, which must not be
haSlaves               each slave of this log: HOST:PORT acknowledged=OFFSET lagBytes=N, with ``;`` between them
haSlaveLagBytes        bytes that the best slave has not acknowledged; absent without a slave
haRefusedCount         connections that were not taken, or closed for what they sent
haState                of a slave: what it is doing
haAlarm                of a slave: why nothing is replicated; empty while it is, or about to be
haMasterAddress        of a slave: the address that it replicates from, or has tried last
haMasterServerAddr     of a slave: the master's address for requests, empty while it is not known
haReceivedBytes        of a slave: bytes of the log since the start
haConnectCount         of a slave: connections to a master since the start
haEqualEnd             of a slave: up to where its log was found to be the master's; -1 if not, or not yet
haDivergedBytes        of a slave: bytes of its log after that, which the master does not have
haMissingHistoryBytes  of a slave that began empty: bytes of the master's log that it will not get; else -1
=====================  ================================================================================================

Compatibility: ``AdminBrokerProcessor.prepareRuntimeInfo`` (4.9.8) has none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketpy.broker.replication.accept_socket import AcceptStatistics
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.client import HAClient
from rocketpy.store.ha.service import HAService

if TYPE_CHECKING:  # a broker that is no slave does not load it
    from rocketpy.broker.replication.comparison import ComparisonStatistics


class ReplicationFigures:
    """Reads the rows; called like a function. ``ha_client`` and ``compared`` are None on a master."""

    def __init__(
        self,
        *,
        role: BrokerRole,
        ha_service: HAService,
        accepted: Callable[[], AcceptStatistics],
        end_offset: Callable[[], int],
        ha_client: HAClient | None,
        compared: Callable[[], ComparisonStatistics] | None,
        master_addresses: MasterAddresses,
        others_of_this_id: Callable[[], Sequence[str]],
    ) -> None:
        self._role = role
        self._ha_service = ha_service
        self._accepted = accepted
        self._end_offset = end_offset
        self._ha_client = ha_client
        self._compared = compared
        self._master_addresses = master_addresses
        self._others_of_this_id = others_of_this_id

    def __call__(self) -> dict[str, str]:
        """Return the rows of this moment."""
        rows = {"brokerRole": self._role.name, "brokerIdConflict": ";".join(self._others_of_this_id())}
        return rows | self._of_slaves() | self._of_master()

    def _of_slaves(self) -> dict[str, str]:
        end = self._end_offset()
        slaves = self._ha_service.slaves_by_peer()
        refused = self._accepted().refused_count + self._ha_service.statistics().refused_count
        rows = {
            "haSlaves": ";".join(
                f"{peer} acknowledged={each.acknowledged_offset} lagBytes={end - each.reached_offset}"
                for peer, each in slaves.items()
            ),
            "haRefusedCount": str(refused),
        }
        if slaves:
            rows["haSlaveLagBytes"] = str(end - max(each.reached_offset for each in slaves.values()))
        return rows

    def _of_master(self) -> dict[str, str]:
        if self._ha_client is None or self._compared is None:
            return {}
        statistics, compared = self._ha_client.statistics(), self._compared()
        return {
            "haState": statistics.state.value,
            "haAlarm": statistics.alarm,
            "haMasterAddress": statistics.master_address,
            "haMasterServerAddr": self._master_addresses.master_addr or "",
            "haReceivedBytes": str(statistics.received_bytes),
            "haConnectCount": str(statistics.connect_count),
            "haEqualEnd": str(compared.equal_end),
            "haDivergedBytes": str(compared.diverged_bytes),
            "haMissingHistoryBytes": str(compared.missing_history_bytes),
        }
