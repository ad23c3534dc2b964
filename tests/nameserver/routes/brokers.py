"""Brokers that register, for the tests of the tables."""

from __future__ import annotations

from rocketpy.nameserver.routes.broker_table import BrokerRegistration
from rocketpy.protocol.bodies.topic import DataVersion

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"
OTHER = "10.0.0.3:10911"


def version(counter: int) -> DataVersion:
    return DataVersion(timestamp=1, counter=counter)


def registration(
    *,
    addr: str = MASTER,
    name: str = "a",
    broker_id: int = 0,
    cluster: str = "c",
    counter: int = 1,
    filter_servers: list[str] | None = None,
) -> BrokerRegistration:
    """Return what a broker says of itself; its replication port is one above the other."""
    return BrokerRegistration(
        cluster_name=cluster,
        broker_addr=addr,
        broker_name=name,
        broker_id=broker_id,
        ha_server_addr=addr.replace("10911", "10912"),
        data_version=version(counter),
        filter_servers=filter_servers,
    )
