"""Accounts of a broker with access control."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.client.config import ClientConfig
from rocketpy.errors import BrokerError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.admin import GetBrokerAclConfigResponseHeader
from rocketpy.protocol.signature import SessionCredentials
from tests.client.admin.conftest import BROKER, CLUSTER
from tests.client.fake_cluster import FakeCluster
from tests.client.real_cluster import open_real_cluster

ADMIN = ClientConfig(credentials=SessionCredentials("the-admin", "another-secret"))
ACCOUNTS = """\
accounts:
- accessKey: the-admin
  secretKey: another-secret
  admin: true
"""


async def test_accounts_come_change_and_go(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    async with (
        open_real_cluster(tmp_path, acl_enable=True, acl_directory=str(tmp_path)) as cluster,
        open_admin_client(cluster.address, config=ADMIN) as admin,
    ):
        accounts, broker = admin.accounts, cluster.broker_address
        before = await accounts.version(broker)
        assert (before.broker_name, before.broker_addr, before.cluster_name) == (BROKER, broker, CLUSTER)
        assert list(before.all_acl_config_data_version or ()) == [str(tmp_path / "plain_acl.yml")]
        account = PlainAccessConfig("new-account", "its-secret", topic_perms=["T=PUB", "U=SUB"], group_perms=["g=SUB"])
        await accounts.update(broker, account)
        await accounts.update_global_white_addresses(broker, ["10.1.1.1", "10.1.1.2"])
        text = (tmp_path / "plain_acl.yml").read_text()
        assert all(part in text for part in ("new-account", "its-secret", "T=PUB", "U=SUB", "g=SUB", "10.1.1.2"))
        after = await accounts.version(broker)
        assert after.acl_config_data_version is not None
        assert before.acl_config_data_version is not None
        assert after.acl_config_data_version.counter == before.acl_config_data_version.counter + 2
        await accounts.delete(broker, "new-account")
        assert "new-account" not in (tmp_path / "plain_acl.yml").read_text()
        for ask, code in (
            (accounts.delete(broker, "new-account"), ResponseCode.DELETE_ACL_CONFIG_FAILED),
            (
                accounts.update(broker, PlainAccessConfig("short", "x")),
                ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
            ),
            (
                accounts.update_global_white_addresses(broker, ["10.1.1.999"]),
                ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
            ),
        ):
            with pytest.raises(BrokerError) as caught:
                await ask
            assert caught.value.response_code == code


async def test_a_broker_with_one_file_of_accounts_says_less(cluster: FakeCluster, admin: AdminClient) -> None:
    header = GetBrokerAclConfigResponseHeader(
        version='{"counter":3,"timestamp":5}', broker_name="b", broker_addr="a:1", cluster_name="c"
    )
    cluster.broker.answer(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, header=header)
    found = await admin.accounts.version(cluster.broker.address)
    assert found.all_acl_config_data_version is None
    assert found.acl_config_data_version is not None
    assert (found.acl_config_data_version.timestamp, found.acl_config_data_version.counter) == (5, 3)


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(PlainAccessConfig("key", "its-secret")).replace("secret_key", "")
