"""Cleaning of brokers."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokersError, ClientError
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS

CODES = (
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.CLEAN_UNUSED_TOPIC,
)


async def test_each_call_asks_for_what_it_says_of_slaves_too(two_brokers: FakeCluster) -> None:
    master, slave = two_brokers.brokers
    two_brokers.name_server.cluster_info = ClusterInfo(
        {"a": BrokerData("c", "a", {0: master.address, 1: slave.address})}, {"c": ["a"]}
    )
    for broker in (master, slave):
        for code in CODES:
            broker.answer(code)
    async with open_admin_client(two_brokers.address) as admin:
        cleaning = admin.cleaning
        calls = (
            cleaning.clean_expired_consume_queues,
            cleaning.delete_expired_commit_logs,
            cleaning.clean_unused_topics,
        )
        for code, clean in zip(CODES, calls, strict=True):
            with trio.fail_after(PATIENCE_SECONDS):
                assert await clean("c") == sorted([master.address, slave.address])
            assert [each.code for each in master.requests] == [code]
            assert [each.code for each in slave.requests] == [code]
            for broker in (master, slave):
                broker.requests.clear()
        assert await cleaning.clean_unused_topics(address=slave.address) == [slave.address]
        with pytest.raises(ClientError, match="no cluster named elsewhere"):
            await cleaning.clean_unused_topics("elsewhere")
        slave.refuse(CODES[0], ResponseCode.SYSTEM_ERROR, "broken")
        with pytest.raises(BrokersError, match="broken") as caught:
            await cleaning.clean_expired_consume_queues()
        assert (list(caught.value.failures), list(caught.value.results)) == ([slave.address], [master.address])
