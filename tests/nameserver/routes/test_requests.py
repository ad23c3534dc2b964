"""Routes, clusters, lists of topics and write permissions, as bytes in and bytes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from rocketpy.nameserver.routes.topic_table import TopicTable
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import (
    TopicConfig,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.remoting.connection import Connection
from tests.nameserver.namesrv_requests import (
    MASTER,
    good,
    registration,
    request,
    topics_by,
)

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


async def test_a_registered_broker_is_in_route_cluster_and_topic_lists(nameserver: NameserverOnBytes) -> None:
    reply = await good(nameserver, registration(TopicConfig("t", read_queue_nums=3, perm=4), filter_servers=["f"]))
    assert reply.ext_fields == {}
    assert reply.body is None
    reply = await good(nameserver, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t"))
    route = decode_body(reply.body, TopicRouteData)
    assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].perm) == (3, 4)
    assert route.broker_datas[0].broker_addrs == {0: MASTER}
    assert route.filter_server_table == {MASTER: ["f"]}
    reply = await good(nameserver, request(RequestCode.GET_BROKER_CLUSTER_INFO))
    info = decode_body(reply.body, ClusterInfo)
    assert list(info.cluster_addr_table["cluster"]) == ["broker-a"]
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t"]
    assert await topics_by(nameserver, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="cluster") == ["t"]
    assert await topics_by(nameserver, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="other") == []
    reply = await good(nameserver, request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS))
    system = decode_body(reply.body, TopicList)
    assert (system.topic_list, system.broker_addr) == (["cluster", "broker-a"], MASTER)


async def test_unit_topic_lists(nameserver: NameserverOnBytes) -> None:
    flags = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
    await good(nameserver, registration(*(TopicConfig(name, topic_sys_flag=flag) for name, flag in flags.items())))
    assert await topics_by(nameserver, RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert await topics_by(nameserver, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
    assert await topics_by(nameserver, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


@pytest.mark.parametrize(
    ("version", "accepts", "is_standard"),
    [(400, None, False), (401, None, True), (409, None, True), (400, "true", True), (400, "false", False)],
)
async def test_the_json_of_a_route_follows_the_requesters_version(
    nameserver: NameserverOnBytes, version: int, accepts: str | None, is_standard: bool
) -> None:
    await good(nameserver, registration(TopicConfig("t")))
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
    command.version = version
    if accepts is not None and command.ext_fields is not None:
        command.ext_fields["acceptStandardJsonOnly"] = accepts
    reply = await good(nameserver, command)
    assert reply.body is not None
    assert (b'{"0":"' in reply.body) == is_standard
    assert (b'{0:"' in reply.body) != is_standard


async def test_cluster_info_is_never_standard_json(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration())
    reply = await good(nameserver, request(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert reply.body is not None
    assert b'"brokerAddrs":{0:"' in reply.body


@pytest.mark.parametrize("setting", ["order_message_enable", "cluster_test"])
async def test_order_configuration_is_in_the_route_only_when_enabled(
    make_nameserver: Callable[..., NameserverOnBytes], setting: str
) -> None:
    put = request(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:4")
    for is_enabled in (False, True):
        nameserver = make_nameserver(**{setting: is_enabled})
        await good(nameserver, registration(TopicConfig("t"), TopicConfig("u")))
        await good(nameserver, put)
        for topic, expected in (("t", "broker-a:4"), ("u", None)):
            reply = await good(nameserver, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic))
            conf = decode_body(reply.body, TopicRouteData).order_topic_conf
            assert conf == (expected if is_enabled else None)


async def test_wiped_and_added_permissions_are_counted(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(TopicConfig("t"), TopicConfig("u", perm=4)))
    reply = await good(nameserver, request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
    assert reply.ext_fields == {"wipeTopicCount": "2"}
    reply = await good(nameserver, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t"))
    assert decode_body(reply.body, TopicRouteData).queue_datas[0].perm == 4
    reply = await good(nameserver, request(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
    assert reply.ext_fields == {"addTopicCount": "2"}
    for topic in ("t", "u"):  # the second was read-only when it was registered: nothing of that survives, as in Java
        reply = await good(nameserver, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic))
        assert decode_body(reply.body, TopicRouteData).queue_datas[0].perm == 6
    reply = await good(nameserver, request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="nobody"))
    assert reply.ext_fields == {"wipeTopicCount": "0"}


async def test_a_topic_is_deleted_for_a_cluster_or_everywhere(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(TopicConfig("t"), TopicConfig("u")))
    await good(nameserver, request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t", clusterName="other"))
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t", "u"]
    await good(nameserver, request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t", clusterName="cluster"))
    await good(nameserver, request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="u"))
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == []


LISTS = (
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    RequestCode.GET_TOPICS_BY_CLUSTER,
)


class Walks:
    """Counts walks over all topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        walk = TopicTable.topics_where

        def counted(table: TopicTable, condition: Callable[[list[QueueData]], bool]) -> Iterator[list[str]]:
            self.count += 1
            return walk(table, condition)

        monkeypatch.setattr(TopicTable, "topics_where", counted)


@pytest.mark.parametrize("code", LISTS)
async def test_a_list_is_made_once_until_a_topic_changes(
    nameserver: NameserverOnBytes, monkeypatch: pytest.MonkeyPatch, code: RequestCode
) -> None:
    """Fifty who ask have the table walked once, and get what one alone would get after each change."""
    walks = Walks(monkeypatch)
    fields = {"cluster": "cluster"} if code == RequestCode.GET_TOPICS_BY_CLUSTER else {}
    flag = 2 if code == RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST else 3
    topics = [TopicConfig(f"t{number}", topic_sys_flag=flag) for number in range(2500)]
    await good(nameserver, registration(*topics))
    for _ in range(50):
        assert await topics_by(nameserver, code, **fields) == [each.topic_name for each in topics]
    assert walks.count == 1
    await good(nameserver, request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t7"))
    await good(nameserver, request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
    left = [each.topic_name for each in topics if each.topic_name != "t7"]
    assert [await topics_by(nameserver, code, **fields) for _ in range(3)] == [left] * 3
    assert walks.count == 2
    nameserver.route_info.unregister_broker(MASTER)
    assert await topics_by(nameserver, code, **fields) == []


async def test_each_cluster_gets_its_own_topics(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(TopicConfig("t")))
    for _ in range(2):
        assert await topics_by(nameserver, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="cluster") == ["t"]
        assert await topics_by(nameserver, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="other") == []


@pytest.mark.parametrize(
    "code", [*LISTS, RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS]
)
async def test_no_list_is_made_for_a_peer_that_does_not_read(
    nameserver: NameserverOnBytes, monkeypatch: pytest.MonkeyPatch, code: RequestCode
) -> None:
    walks = Walks(monkeypatch)
    await good(nameserver, registration(TopicConfig("t")))
    monkeypatch.setattr(Connection, "has_room", lambda connection, size: False)
    reply = await nameserver.ask(request(code, cluster="cluster"))
    assert reply.code == ResponseCode.SYSTEM_BUSY
    assert walks.count == 0
