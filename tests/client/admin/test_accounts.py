"""Versions of the accounts of a broker; the other calls are in ``test_golden_calls``."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.protocol.bodies.acl import ClusterAclVersionInfo, PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.headers.admin import GetBrokerAclConfigResponseHeader
from tests.client.fake_cluster import FakeCluster


@pytest.mark.parametrize("files", [None, {"accounts.yml": DataVersion(timestamp=7, counter=4)}])
async def test_a_broker_says_the_version_of_its_accounts_and_perhaps_of_each_file(
    cluster: FakeCluster, admin: AdminClient, files: dict[str, DataVersion] | None
) -> None:
    header = GetBrokerAclConfigResponseHeader(
        version='{"counter":3,"timestamp":5}',
        all_acl_file_version=files and '{"accounts.yml":{"counter":4,"timestamp":7}}',
        broker_name="b",
        broker_addr="a:1",
        cluster_name="c",
    )
    cluster.broker.answer(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, header=header)
    found = await admin.accounts.version(cluster.broker.address)
    assert found == ClusterAclVersionInfo("b", "a:1", "c", DataVersion(timestamp=5, counter=3), files)


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(PlainAccessConfig("key", "its-secret")).replace("secret_key", "")
