"""The routing tables with plain values: who registered what, who left how, what everybody else then sees."""

from __future__ import annotations

import pytest

from rocketpy.nameserver.route_info import RegisterBrokerResult, RouteInfoManager
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"
OTHER = "10.0.0.3:10911"
CLIENT = "10.0.0.9:5555"

Manager = RouteInfoManager[object]


def version(counter: int) -> DataVersion:
    return DataVersion(timestamp=1, counter=counter)


def topic(name: str, perm: int = 6, flag: int = 0, queues: int = 4) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


def register(
    manager: Manager,
    *topics: TopicConfig,
    addr: str = MASTER,
    name: str = "a",
    broker_id: int = 0,
    cluster: str = "c",
    counter: int = 1,
    connection: object = "connection",
    now: float = 0.0,
    filter_servers: list[str] | None = None,
) -> RegisterBrokerResult:
    return manager.register_broker(
        cluster_name=cluster,
        broker_addr=addr,
        broker_name=name,
        broker_id=broker_id,
        ha_server_addr=addr.replace("10911", "10912"),
        topic_configs=topics,
        data_version=version(counter),
        filter_servers=filter_servers,
        connection=connection,
        now=now,
    )


def perm_of(manager: Manager, topic_name: str, name: str = "a") -> int:
    route = manager.pick_up_topic_route_data(topic_name)
    assert route is not None
    return {queue.broker_name: queue.perm for queue in route.queue_datas}[name]


@pytest.fixture
def manager() -> Manager:
    return RouteInfoManager()


def test_a_master_brings_its_topics(manager: Manager) -> None:
    assert register(manager, topic("t", queues=3)) == RegisterBrokerResult(None, None, True)
    route = manager.pick_up_topic_route_data("t")
    assert route is not None
    (queue,) = route.queue_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm) == ("a", 3, 3, 6)
    (broker,) = route.broker_datas
    assert (broker.cluster, broker.broker_name, broker.broker_addrs) == ("c", "a", {0: MASTER})
    assert route.filter_server_table == {}
    assert route.order_topic_conf is None
    assert not register(manager).is_new


def test_a_topic_nobody_has_has_no_route(manager: Manager) -> None:
    register(manager, topic("t"))
    assert manager.pick_up_topic_route_data("u") is None
    assert manager.pick_up_topic_route_data("") is None


def test_a_slave_alone_registers_no_topics(manager: Manager) -> None:
    register(manager, topic("t"), addr=SLAVE, broker_id=1)
    assert manager.all_topics().topic_list == []


def test_a_slave_learns_where_its_master_is(manager: Manager) -> None:
    assert register(manager, addr=SLAVE, broker_id=1).master_addr is None
    register(manager)
    result = register(manager, addr=SLAVE, broker_id=1)
    assert (result.master_addr, result.ha_server_addr) == (MASTER, "10.0.0.1:10912")


def test_topics_are_taken_again_only_with_another_data_version(manager: Manager) -> None:
    register(manager, topic("t", perm=6), counter=1)
    register(manager, topic("t", perm=4), counter=1)
    assert perm_of(manager, "t") == 6
    register(manager, topic("t", perm=4), counter=2)
    assert perm_of(manager, "t") == 4
    register(manager, topic("t", perm=2), counter=1)
    assert perm_of(manager, "t") == 2


def test_a_topic_missing_from_a_registration_stays(manager: Manager) -> None:
    register(manager, topic("t"), topic("u"), counter=1)
    register(manager, topic("u"), counter=2)
    assert manager.all_topics().topic_list == ["t", "u"]


def test_a_slave_promoted_to_master_has_one_id_only(manager: Manager) -> None:
    register(manager, topic("t"))
    register(manager, addr=SLAVE, broker_id=1)
    register(manager, topic("t"), addr=SLAVE, broker_id=0)
    assert manager.cluster_info().broker_addr_table["a"].broker_addrs == {0: SLAVE}
    manager.remove_connection("connection", CLIENT)
    assert manager.statistics().brokers == 0


def test_a_topic_stays_routed_while_a_slave_is_left(manager: Manager) -> None:
    register(manager, topic("t"), connection=1)
    register(manager, addr=SLAVE, broker_id=1, connection=2)
    assert manager.remove_connection(1, CLIENT) == [MASTER]
    route = manager.pick_up_topic_route_data("t")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: SLAVE}
    assert manager.remove_connection(2, CLIENT) == [SLAVE]
    assert manager.pick_up_topic_route_data("t") is None
    assert manager.cluster_info().cluster_addr_table == {}
    manager.check_invariants()


def test_a_broker_that_unregisters_is_gone_and_its_successor_stays(manager: Manager) -> None:
    """Java takes the successor out of all routes until it registers again."""
    register(manager, topic("t"))
    register(manager, topic("t"), addr=OTHER)
    assert manager.unregister_broker(MASTER)
    assert manager.cluster_info().broker_addr_table["a"].broker_addrs == {0: OTHER}
    assert manager.unregister_broker(OTHER)
    assert not manager.unregister_broker(OTHER)
    assert manager.all_topics().topic_list == []


def test_the_end_of_an_older_connection_removes_nothing(manager: Manager) -> None:
    register(manager, topic("t"), connection="old")
    register(manager, topic("t"), connection="new")
    assert manager.remove_connection("old", CLIENT) == []
    assert manager.all_topics().topic_list == ["t"]


def test_the_end_of_a_connection_removes_every_address_that_came_over_it(manager: Manager) -> None:
    register(manager, topic("t"), name="a", addr=MASTER, connection="shared")
    register(manager, topic("u"), name="b", addr=OTHER, connection="shared")
    assert manager.remove_connection("shared", CLIENT) == [MASTER, OTHER]
    assert manager.statistics().live_addresses == 0


def test_a_connection_without_registration_is_tried_by_its_peer(manager: Manager) -> None:
    register(manager, connection="other")
    assert manager.remove_connection("unknown", CLIENT) == []
    assert manager.remove_connection("unknown", MASTER) == [MASTER]


def test_brokers_expire_after_more_than_120_seconds(manager: Manager) -> None:
    register(manager, topic("t"), connection=1, now=0.0)
    register(manager, topic("t"), addr=OTHER, name="b", connection=2, now=30.0)
    assert manager.remove_expired_brokers(120.0) == []
    assert manager.remove_expired_brokers(120.1) == [(MASTER, 1)]
    assert perm_of(manager, "t", "b") == 6
    manager.touch_broker(OTHER, 100.0)
    manager.touch_broker("unknown", 100.0)
    assert manager.remove_expired_brokers(220.0) == []
    assert manager.remove_expired_brokers(220.1) == [(OTHER, 2)]
    assert manager.all_topics().topic_list == []


def test_data_versions_are_compared_whole(manager: Manager) -> None:
    assert manager.is_data_version_changed(MASTER, version(1))
    register(manager, counter=1)
    assert not manager.is_data_version_changed(MASTER, version(1))
    assert manager.is_data_version_changed(MASTER, version(2))
    assert manager.is_data_version_changed(MASTER, DataVersion(timestamp=2, counter=1))
    assert manager.data_version_of(MASTER) == version(1)
    assert manager.data_version_of(SLAVE) is None


def test_a_wiped_permission_survives_until_a_topic_changes(manager: Manager) -> None:
    register(manager, topic("t", perm=7), topic("u", perm=4), counter=1)
    register(manager, topic("t"), addr=OTHER, name="b")
    assert manager.wipe_write_perm("a") == 2
    assert (perm_of(manager, "t"), perm_of(manager, "u"), perm_of(manager, "t", "b")) == (5, 4, 6)
    register(manager, topic("t", perm=7), counter=1)
    assert perm_of(manager, "t") == 5
    register(manager, topic("t", perm=7), counter=2)
    assert perm_of(manager, "t") == 7
    assert manager.add_write_perm("a") == 2
    assert (perm_of(manager, "t"), perm_of(manager, "u")) == (6, 6)
    assert manager.wipe_write_perm("nobody") == manager.add_write_perm("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(manager: Manager) -> None:
    register(manager, topic("t"), topic("u"), cluster="c", name="a")
    register(manager, topic("t"), cluster="d", name="b", addr=OTHER)
    manager.delete_topic("t", "nowhere")
    manager.delete_topic("unknown", "c")
    manager.delete_topic("t", "c")
    route = manager.pick_up_topic_route_data("t")
    assert route is not None
    assert [queue.broker_name for queue in route.queue_datas] == ["b"]
    manager.delete_topic("u", "")
    manager.delete_topic("u")
    manager.delete_topic("t", "d")
    assert manager.all_topics().topic_list == []
    manager.check_invariants()


def test_filter_servers_are_set_removed_or_left(manager: Manager) -> None:
    def filter_servers() -> dict[str, list[str]]:
        route = manager.pick_up_topic_route_data("t")
        assert route is not None
        return route.filter_server_table

    register(manager, topic("t"), filter_servers=["f1"])
    assert filter_servers() == {MASTER: ["f1"]}
    register(manager, filter_servers=None)
    assert filter_servers() == {MASTER: ["f1"]}
    register(manager, filter_servers=[])
    assert filter_servers() == {}


def test_topic_lists(manager: Manager) -> None:
    register(manager, topic("plain"), topic("unit", flag=1), topic("sub", flag=2), topic("both", flag=3))
    register(manager, topic("far"), cluster="d", name="b", addr=OTHER)
    assert manager.all_topics().topic_list == ["plain", "unit", "sub", "both", "far"]
    assert manager.unit_topics().topic_list == ["unit", "both"]
    assert manager.unit_sub_topics().topic_list == ["sub", "both"]
    assert manager.unit_sub_ununit_topics().topic_list == ["sub"]
    assert manager.topics_of_cluster("d").topic_list == ["far"]
    assert manager.topics_of_cluster("unknown").topic_list == []
    assert manager.system_topics().topic_list == ["c", "a", "d", "b"]
    assert manager.system_topics().broker_addr == MASTER
    assert manager.all_topics().broker_addr is None


def test_system_topics_of_an_empty_nameserver(manager: Manager) -> None:
    assert manager.system_topics().topic_list == []
    assert manager.system_topics().broker_addr is None


def test_a_broker_keeps_the_cluster_it_came_with_and_leaves_all_of_them(manager: Manager) -> None:
    register(manager, cluster="c")
    register(manager, cluster="d")
    info = manager.cluster_info()
    assert info.broker_addr_table["a"].cluster == "c"
    assert {cluster: list(names) for cluster, names in info.cluster_addr_table.items()} == {"c": ["a"], "d": ["a"]}
    manager.unregister_broker(MASTER)
    assert manager.cluster_info().cluster_addr_table == {}


def test_answers_are_not_changed_by_what_comes_later(manager: Manager) -> None:
    register(manager, topic("t"))
    route, info = manager.pick_up_topic_route_data("t"), manager.cluster_info()
    assert route is not None
    manager.wipe_write_perm("a")
    register(manager, addr=SLAVE, broker_id=1)
    assert route.queue_datas[0].perm == 6
    assert route.broker_datas[0].broker_addrs == info.broker_addr_table["a"].broker_addrs == {0: MASTER}
