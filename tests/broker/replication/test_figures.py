from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from rocketpy.broker.replication.accept_socket import AcceptStatistics
from rocketpy.broker.replication.comparison import ComparisonStatistics
from rocketpy.broker.replication.figures import ReplicationFigures
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.client import HAClient, HAClientStatistics, HAState
from rocketpy.store.ha.service import HAService, HAStatistics
from tests.broker.replication.test_replication_log import END, a_slave


def figures_of(
    role: BrokerRole, service: dict[str, object], client: HAClientStatistics | None = None, others: tuple[str, ...] = ()
) -> dict[str, str]:
    addresses = MasterAddresses(own_addr="10.0.0.2:10911")
    addresses.take("ns:9876", "10.0.0.1:10911", "10.0.0.1:10912")
    figures = ReplicationFigures(
        role=role,
        ha_service=cast(
            HAService,
            SimpleNamespace(slaves_by_peer=lambda: service, statistics=lambda: HAStatistics(3, 2, 4, 1, 1)),
        ),
        accepted=lambda: AcceptStatistics(3, 7, 5),
        end_offset=lambda: END,
        ha_client=None if client is None else cast(HAClient, SimpleNamespace(statistics=lambda: client)),
        compared=None if client is None else lambda: ComparisonStatistics(2, 4711, 89, -1),
        master_addresses=addresses,
        others_of_this_id=lambda: others,
    )
    return figures()


def test_a_master_shows_its_slaves_and_their_lag() -> None:
    slaves: dict[str, object] = {"10.0.0.2:1": a_slave(4000), "10.0.0.3:1": a_slave(4000, 4900)}
    assert figures_of(BrokerRole.SYNC_MASTER, slaves) == {
        "brokerRole": "SYNC_MASTER",
        "brokerIdConflict": "",
        "haSlaves": "10.0.0.2:1 acknowledged=-1 lagBytes=1000;10.0.0.3:1 acknowledged=4900 lagBytes=100",
        "haSlaveLagBytes": "100",
        "haRefusedCount": "9",
    }


def test_without_a_slave_there_is_no_lag() -> None:
    rows = figures_of(BrokerRole.ASYNC_MASTER, {}, others=("10.0.0.9:10911",))
    assert rows["haSlaves"] == ""
    assert "haSlaveLagBytes" not in rows
    assert rows["brokerIdConflict"] == "10.0.0.9:10911"


def test_a_slave_shows_what_it_is_doing() -> None:
    client = HAClientStatistics(HAState.CONNECTING, "connection refused", "10.0.0.1:10912", 3, 700, 5)
    rows = figures_of(BrokerRole.SLAVE, {}, client)
    assert {
        key: rows[key] for key in rows if key.startswith(("haState", "haAlarm", "haM", "haRec", "haC", "haE", "haD"))
    } == {
        "haState": "connecting",
        "haAlarm": "connection refused",
        "haMasterAddress": "10.0.0.1:10912",
        "haMasterServerAddr": "10.0.0.1:10911",
        "haReceivedBytes": "700",
        "haConnectCount": "3",
        "haEqualEnd": "4711",
        "haDivergedBytes": "89",
        "haMissingHistoryBytes": "-1",
    }


def rows_of_a_slave_with_a_slave() -> dict[str, str]:
    """Return every row that there is."""
    client = HAClientStatistics(HAState.FOLLOWING, "", "10.0.0.1:10912", 3, 700, 5)
    return figures_of(BrokerRole.SLAVE, {"10.0.0.2:1": a_slave(4000)}, client)
