"""Connections of a task: one for each broker, as long as it works."""

from __future__ import annotations

import pytest

from rocketpy.errors import RemotingConnectError, RemotingSendRequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_response
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.connections import BrokerConnections
from tests.spark.live.fake_cluster import served


def test_there_is_one_for_each_broker_until_it_is_closed() -> None:
    with served(make_response) as address, BrokerConnections(ClusterAccess(name_servers=())) as connections:
        first = connections.open("b", address, "n:1")
        assert connections.open("b", address, "n:1") is first
        assert address in connections
        connections.close(address)
        connections.close(address)
        assert address not in connections
        second = connections.open("b", address, "n:1")
        second.request(RequestCode.PULL_MESSAGE, None)
        connections.__exit__(None, None, None)
        for client in (first, second):
            with pytest.raises(RemotingSendRequestError):
                client.request(RequestCode.PULL_MESSAGE, None)


def test_a_broker_that_is_not_there_leaves_none_behind() -> None:
    with BrokerConnections(ClusterAccess(name_servers=())) as connections:
        with pytest.raises(RemotingConnectError, match="nameserver n:1 advertises"):
            connections.open("b", "127.0.0.1:1", "n:1")
        assert "127.0.0.1:1" not in connections
