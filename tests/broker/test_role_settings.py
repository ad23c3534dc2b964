from __future__ import annotations

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.role_settings import check_role, configured_ha_master, own_broker_id, role_warnings
from rocketpy.errors import SettingsError
from rocketpy.store.config import BrokerRole, MessageStoreConfig

MASTERS = [BrokerRole.ASYNC_MASTER, BrokerRole.SYNC_MASTER]


def test_a_slave_has_the_id_of_the_file() -> None:
    store = MessageStoreConfig(broker_role=BrokerRole.SLAVE)
    broker = BrokerConfig(broker_id=(1 << 63) - 1, namesrv_addr="ns:9876")
    check_role(broker, store)
    assert own_broker_id(broker, store) == (1 << 63) - 1
    assert role_warnings(broker, store) == []


@pytest.mark.parametrize("role", MASTERS)
def test_a_master_that_is_to_follow_another_is_refused(role: BrokerRole) -> None:
    with pytest.raises(SettingsError, match=rf"^haMasterAddress = 'm:10912': expected none, .*{role.name}"):
        check_role(BrokerConfig(), MessageStoreConfig(broker_role=role, ha_master_address="m:10912"))


@pytest.mark.parametrize("address", ["nowhere", "host:x", "host:65536", ":10912", "10.0.0.1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    store = MessageStoreConfig(broker_role=BrokerRole.SLAVE, ha_master_address=address)
    with pytest.raises(SettingsError, match=r"^haMasterAddress = .*: expected HOST:PORT, the address of the master's"):
        check_role(BrokerConfig(broker_id=1), store)


def test_the_configured_address_of_a_master_counts() -> None:
    store = MessageStoreConfig(broker_role=BrokerRole.SLAVE, ha_master_address="m:1091")
    check_role(BrokerConfig(broker_id=1), store)
    assert configured_ha_master(store) == "m:1091"


@pytest.mark.parametrize("role", BrokerRole)
def test_an_address_of_less_than_six_characters_counts_as_none(role: BrokerRole) -> None:
    store = MessageStoreConfig(broker_role=role, ha_master_address="m:109")
    broker = BrokerConfig(broker_id=role is BrokerRole.SLAVE, namesrv_addr="ns:9876")
    check_role(broker, store)
    assert configured_ha_master(store) is None
    assert role_warnings(broker, store) == [
        "haMasterAddress = 'm:109' has no effect: expected HOST:PORT of at least 6 characters"
    ]


def test_an_account_without_access_control_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^replicationAccount = 'slave-account': expected none, because aclEnable"):
        check_role(BrokerConfig(replication_account="slave-account"), MessageStoreConfig())
    check_role(BrokerConfig(replication_account="slave-account", acl_enable=True), MessageStoreConfig())


@pytest.mark.parametrize(
    ("address", "lost"), [(None, "its master"), ("m:10912", "the topics, groups and offsets of its master")]
)
def test_a_slave_without_nameservers_is_warned_of(address: str | None, lost: str) -> None:
    store = MessageStoreConfig(broker_role=BrokerRole.SLAVE, ha_master_address=address)
    assert role_warnings(BrokerConfig(broker_id=1), store) == [f"namesrvAddr is not set: this slave cannot find {lost}"]


def test_idle_slaves_must_have_time_for_a_heartbeat() -> None:
    times = {"ha_send_heartbeat_interval": 5000, "ha_housekeeping_interval": 5000}
    with pytest.raises(SettingsError, match=r"^haHousekeepingInterval = 5000: expected more than haSendHeartbeatInt"):
        check_role(BrokerConfig(), MessageStoreConfig(**times))
    check_role(BrokerConfig(), MessageStoreConfig(**{**times, "ha_housekeeping_interval": 5001}))
