"""Role and id of a broker at start, and which settings of replication go with them.

Compatibility: ``BrokerStartup.createBrokerController`` (4.9.8): a master has brokerId 0 whatever the file says, a slave
without an id above 0 does not start. RocketMQ starts with a ``haMasterAddress`` that is none, and with one on a master;
both are refused here, because such a broker would never replicate what its operator expects. No request changes role
and id (``fixed``): RocketMQ then changes the field, and starts and stops nothing.
"""

from __future__ import annotations

from rocketpy.broker.config import BrokerConfig
from rocketpy.errors import RemotingConnectError, SettingsError
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.remoting.network import split_address
from rocketpy.store.config import BrokerRole, MessageStoreConfig

HA_MASTER_ADDRESS_LENGTH_MIN = 6
"""A shorter ``haMasterAddress`` counts as none, as in RocketMQ."""


def check_role(broker: BrokerConfig, store: MessageStoreConfig) -> None:
    """Raise SettingsError, which names key and expectation, for a role that this broker cannot have."""
    address = configured_ha_master(store)
    if store.broker_role is BrokerRole.SLAVE:
        if broker.broker_id <= MASTER_ID:
            raise SettingsError(
                f"brokerId = {broker.broker_id}: expected a number above 0, because brokerRole is SLAVE, and another "
                "one for each slave of a brokerName"
            )
    elif address is not None:
        raise SettingsError(
            f"haMasterAddress = {address!r}: expected none, because brokerRole is {store.broker_role.name}: only a "
            "SLAVE has a master"
        )
    if address is not None:
        _check_address(address)
    if broker.replication_account and not broker.acl_enable:
        raise SettingsError(
            f"replicationAccount = {broker.replication_account!r}: expected none, because aclEnable is false: without "
            "access control a broker reads no accounts"
        )
    if store.ha_housekeeping_interval <= store.ha_send_heartbeat_interval:
        raise SettingsError(
            f"haHousekeepingInterval = {store.ha_housekeeping_interval}: expected more than haSendHeartbeatInterval, "
            f"which is {store.ha_send_heartbeat_interval}: an idle slave would be disconnected before its heartbeat"
        )


def role_warnings(broker: BrokerConfig, store: MessageStoreConfig) -> list[str]:
    """Return warnings about settings that have no effect in this role, or leave a slave alone."""
    is_slave = store.broker_role is BrokerRole.SLAVE
    warnings = []
    if not is_slave and broker.broker_id != MASTER_ID:
        warnings.append(f"brokerId = {broker.broker_id} has no effect: a master has 0")
    if store.ha_master_address and configured_ha_master(store) is None:
        warnings.append(
            f"haMasterAddress = {store.ha_master_address!r} has no effect: expected HOST:PORT of at least "
            f"{HA_MASTER_ADDRESS_LENGTH_MIN} characters"
        )
    if is_slave and not broker.namesrv_addresses:
        lost = "the topics, groups and offsets of its master" if configured_ha_master(store) else "its master"
        warnings.append(f"namesrvAddr is not set: this slave cannot find {lost}")
    return warnings


def own_broker_id(broker: BrokerConfig, store: MessageStoreConfig) -> int:
    """Return the id with which the broker registers: a master has 0 whatever the file says."""
    return broker.broker_id if store.broker_role is BrokerRole.SLAVE else MASTER_ID


def configured_ha_master(store: MessageStoreConfig) -> str | None:
    """Return the configured address to replicate from; None for one that nameservers name."""
    address = store.ha_master_address or ""
    return address if len(address) >= HA_MASTER_ADDRESS_LENGTH_MIN else None


def _check_address(address: str) -> None:
    try:
        split_address(address)
    except RemotingConnectError as failure:
        raise SettingsError(
            f"haMasterAddress = {address!r}: expected HOST:PORT, the address of the master's replication port"
        ) from failure
