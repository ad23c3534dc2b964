"""Every request code of a nameserver, as bytes in and bytes out: answers, refusals, and what garbage leaves alone."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpy.nameserver.processor import FAQ_SUFFIX
from rocketpy.properties_text import read_properties
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import ClusterInfo, KVTable, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request

if TYPE_CHECKING:
    from conftest import NameserverOnBytes

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def wrapper_of(*topics: TopicConfig, counter: int = 1) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        topic_config_table={topic.topic_name: topic for topic in topics},
        data_version=DataVersion(timestamp=5, counter=counter),
    )


def registration(
    *topics: TopicConfig,
    addr: str = MASTER,
    broker_id: int = 0,
    counter: int = 1,
    filter_servers: list[str] | None = None,
    **fields: str,
) -> RemotingCommand:
    body = encode_body(
        RegisterBrokerBody(
            topic_config_serialize_wrapper=wrapper_of(*topics, counter=counter),
            filter_server_list=filter_servers or [],
        )
    )
    return request(
        RequestCode.REGISTER_BROKER,
        body,
        brokerName="broker-a",
        brokerAddr=addr,
        clusterName="cluster",
        haServerAddr=addr.replace("10911", "10912"),
        brokerId=str(broker_id),
        **fields,
    )


def request(code: int, body: bytes | None = None, **fields: str) -> RemotingCommand:
    command = make_request(code, body=body)
    command.ext_fields = fields or None
    return command


async def asked(nameserver: NameserverOnBytes, code: int, body: bytes | None = None, **fields: str) -> RemotingCommand:
    reply = await nameserver.ask(request(code, body, **fields))
    assert reply is not None
    return reply


async def good(nameserver: NameserverOnBytes, command: RemotingCommand) -> RemotingCommand:
    reply = await nameserver.ask(command)
    assert reply is not None
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
    return reply


async def topics_by(nameserver: NameserverOnBytes, code: int, **fields: str) -> list[str]:
    reply = await good(nameserver, request(code, **fields))
    return decode_body(reply.body, TopicList).topic_list


# -- brokers ----------------------------------------------------------------------------------------------------------


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


async def test_a_slave_is_told_its_master(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration())
    reply = await good(nameserver, registration(addr=SLAVE, broker_id=1))
    assert reply.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": MASTER}


async def test_a_registration_without_a_body_brings_no_topics(nameserver: NameserverOnBytes) -> None:
    command = registration()
    command.body = None
    await good(nameserver, command)
    reply = await asked(
        nameserver,
        RequestCode.QUERY_DATA_VERSION,
        encode_body(DataVersion(timestamp=0, counter=0)),
        brokerName="broker-a",
        brokerAddr=MASTER,
        clusterName="cluster",
        brokerId="0",
    )
    assert reply.ext_fields == {"changed": "false"}


async def test_a_compressed_registration_loses_flags_only(nameserver: NameserverOnBytes) -> None:
    command = registration(compressed="true")
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper_of(TopicConfig("t", topic_sys_flag=1)))
    command.body = body.encode_compressed()
    assert command.ext_fields is not None
    command.ext_fields["bodyCrc32"] = str(zlib.crc32(command.body) & 0x7FFFFFFF)
    await good(nameserver, command)
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t"]
    assert await topics_by(nameserver, RequestCode.GET_UNIT_TOPIC_LIST) == []


async def test_unit_topic_lists(nameserver: NameserverOnBytes) -> None:
    flags = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
    await good(nameserver, registration(*(TopicConfig(name, topic_sys_flag=flag) for name, flag in flags.items())))
    assert await topics_by(nameserver, RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
    assert await topics_by(nameserver, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
    assert await topics_by(nameserver, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


async def test_a_registration_of_a_broker_before_3_0_11_is_topics_only(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(filter_servers=["f"]))
    command = registration()
    command.version = 36
    command.body = encode_body(wrapper_of(TopicConfig("old"), counter=2))
    await good(nameserver, command)
    reply = await good(nameserver, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="old"))
    assert decode_body(reply.body, TopicRouteData).filter_server_table == {MASTER: ["f"]}


async def test_a_wrong_crc_refuses_the_registration(nameserver: NameserverOnBytes) -> None:
    reply = await nameserver.ask(registration(TopicConfig("t"), bodyCrc32="5"))
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert reply.remark.startswith("crc32 not match: bodyCrc32 is 5, the body has ")
    assert nameserver.route_info.statistics().brokers == 0


async def test_a_broker_that_asks_with_the_known_version_stays_alive(nameserver: NameserverOnBytes) -> None:
    names = {"brokerName": "broker-a", "brokerAddr": MASTER, "clusterName": "cluster", "brokerId": "0"}
    known = encode_body(DataVersion(timestamp=5, counter=1))
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, known, **names)
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, None)
    connection = nameserver.connect()
    await nameserver.ask(registration(), connection)
    nameserver.now = 100.0
    other = encode_body(DataVersion(timestamp=5, counter=2))
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, other, **names)
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, known)
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, known, **names)
    assert (reply.ext_fields, reply.body) == ({"changed": "false"}, known)
    nameserver.now = 220.0
    nameserver.housekeeping.scan_not_active_brokers()
    assert nameserver.route_info.statistics().live_addresses == 1


async def test_a_question_without_a_version_is_refused(nameserver: NameserverOnBytes) -> None:
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, **BROKER)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "body: expected a DataVersion, found nothing")


async def test_an_unregistered_broker_is_gone(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(TopicConfig("t")))
    names = {"brokerName": "broker-a", "brokerAddr": MASTER, "clusterName": "cluster", "brokerId": "0"}
    for _ in range(2):
        await good(nameserver, request(RequestCode.UNREGISTER_BROKER, **names))
    reply = await asked(nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert reply.remark == f"No topic route info in name server for the topic: t{FAQ_SUFFIX}"


async def test_a_oneway_registration_counts_and_is_not_answered(nameserver: NameserverOnBytes) -> None:
    command = registration(TopicConfig("t"))
    command.flag = 2
    assert await nameserver.ask(command) is None
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t"]


# -- routes -----------------------------------------------------------------------------------------------------------


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


# -- KV and settings --------------------------------------------------------------------------------------------------


async def test_kv_values_come_and_go(nameserver: NameserverOnBytes) -> None:
    where = {"namespace": "ns", "key": "k"}
    reply = await asked(nameserver, RequestCode.GET_KV_CONFIG, **where)
    assert (reply.code, reply.ext_fields) == (ResponseCode.QUERY_NOT_FOUND, {})
    assert reply.remark == "No config item, Namespace: ns Key: k"
    reply = await asked(nameserver, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")
    assert (reply.code, reply.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: ns")
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, value="v 值", **where))
    reply = await good(nameserver, request(RequestCode.GET_KV_CONFIG, **where))
    assert reply.ext_fields == {"value": "v 值"}
    reply = await good(nameserver, request(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns"))
    assert decode_body(reply.body, KVTable).table == {"k": "v 值"}
    for _ in range(2):
        await good(nameserver, request(RequestCode.DELETE_KV_CONFIG, **where))
    assert (await asked(nameserver, RequestCode.GET_KV_CONFIG, **where)).code == ResponseCode.QUERY_NOT_FOUND
    reply = await good(nameserver, request(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns"))
    assert decode_body(reply.body, KVTable).table == {}


async def test_a_registering_broker_is_told_the_order_topics(nameserver: NameserverOnBytes) -> None:
    where = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, value="broker-a:4", **where))
    assert (await good(nameserver, registration())).body == b'{"table":{"t":"broker-a:4"}}'
    await good(nameserver, request(RequestCode.DELETE_KV_CONFIG, **where))
    assert (await good(nameserver, registration())).body == b'{"table":{}}'


async def test_settings_are_shown_and_changed(nameserver: NameserverOnBytes, tmp_path: Path) -> None:
    reply = await good(nameserver, request(RequestCode.GET_NAMESRV_CONFIG))
    assert reply.body is not None
    lines = reply.body.decode().splitlines()
    assert {"listenPort=9876", "orderMessageEnable=false", "foreignKey=1"} <= set(lines)
    body = b"orderMessageEnable=true\nforeignKey=2\n"
    assert (await good(nameserver, request(RequestCode.UPDATE_NAMESRV_CONFIG, body))).remark is None
    await good(nameserver, request(RequestCode.UPDATE_NAMESRV_CONFIG))
    reply = await good(nameserver, request(RequestCode.GET_NAMESRV_CONFIG))
    assert reply.body is not None
    lines = reply.body.decode().splitlines()
    assert {"orderMessageEnable=true", "foreignKey=2"} <= set(lines)
    assert sorted((tmp_path / "namesrv.properties").read_text().splitlines()) == sorted(lines)


async def test_what_was_accepted_is_shown_beside_what_is_in_force(nameserver: NameserverOnBytes) -> None:
    """As mqadmin sends and gets it; a get that went on showing the old value looked like a change that was lost."""
    body = b"connectionsMax=5\nserverChannelMaxIdleTimeSeconds=119\norderMessageEnable=true"
    await nameserver.ask(request(RequestCode.UPDATE_NAMESRV_CONFIG, body))
    reply = await good(nameserver, request(RequestCode.GET_NAMESRV_CONFIG))
    assert reply.body is not None
    shown = {line.key: line.value for line in read_properties(reply.body.decode())}
    assert (shown["connectionsMax"], shown["connectionsMax.inForce"]) == ("5", "10000")
    idle = "serverChannelMaxIdleTimeSeconds"
    assert (shown[idle], shown[idle + ".inForce"]) == ("119", "120")
    assert shown["orderMessageEnable"] == "true"
    assert "orderMessageEnable.inForce" not in shown


async def test_what_waits_for_the_next_start_is_named(nameserver: NameserverOnBytes) -> None:
    reply = await nameserver.ask(request(RequestCode.UPDATE_NAMESRV_CONFIG, b"connectionsMax=5\nclusterTest=true"))
    assert reply is not None
    assert reply.code == ResponseCode.SUCCESS
    assert reply.remark == "takes effect with the next start: connectionsMax"


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (b"kvConfigPath=/x", ResponseCode.NO_PERMISSION, "kvConfigPath"),
        (b"clusterTest=true\nrocketmqHome=/x", ResponseCode.NO_PERMISSION, "rocketmqHome"),
        (b"clusterTest=true\nlistenPort=1", ResponseCode.NO_PERMISSION, "listenPort"),
        (b"listenPort=9876\nconnectionsMax=9x", ResponseCode.SYSTEM_ERROR, "connectionsMax = '9x'"),
        (b"orderMessageEnabled=true", ResponseCode.SYSTEM_ERROR, "did you mean orderMessageEnable?"),
        (b"orderMessageEnable=\\u00zz", ResponseCode.SYSTEM_ERROR, "line 1"),
    ],
)
async def test_a_refused_setting_is_named(nameserver: NameserverOnBytes, body: bytes, code: int, named: str) -> None:
    before = nameserver.everything()
    reply = await asked(nameserver, RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert reply.code == code
    assert reply.remark is not None
    assert named in reply.remark
    assert nameserver.everything() == before


@pytest.mark.parametrize(
    ("code", "body", "fields"),
    [
        (RequestCode.PUT_KV_CONFIG, None, {"namespace": "ns", "key": "k", "value": "v"}),
        (RequestCode.DELETE_KV_CONFIG, None, {"namespace": "ns", "key": "k"}),
        (RequestCode.UPDATE_NAMESRV_CONFIG, b"clusterTest=true", {}),
    ],
)
async def test_a_disk_that_refuses_is_an_answer_and_changes_nothing(
    nameserver: NameserverOnBytes, tmp_path: Path, code: int, body: bytes | None, fields: dict[str, str]
) -> None:
    for name in ("kvConfig.json", "namesrv.properties"):
        (tmp_path / name).mkdir()
    before = nameserver.everything()
    reply = await asked(nameserver, code, body, **fields)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert str(tmp_path) in reply.remark
    assert nameserver.everything() == before


# -- garbage ----------------------------------------------------------------------------------------------------------

BROKER = {"brokerName": "b", "brokerAddr": "1.2.3.4:5", "clusterName": "c", "brokerId": "0"}
TEXT = ("missing", "empty")
INT32 = ("missing", "empty", "x", "1.5", "-", " 1", str(2**31), str(-(2**31) - 1))
INT64 = ("missing", "empty", "x", "1.5", "0x1", str(2**63), str(-(2**63) - 1), "9" * 5000)
OPTIONAL_INT32 = INT32[1:]


def without(fields: dict[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in fields.items() if key != name}


# code -> good fields, and of each field that can be wrong the values that are
WRONG: dict[RequestCode, tuple[dict[str, str], dict[str, tuple[str, ...]]]] = {
    RequestCode.PUT_KV_CONFIG: ({"namespace": "ns", "key": "k", "value": "v"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.GET_KV_CONFIG: ({"namespace": "ns", "key": "k"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.DELETE_KV_CONFIG: ({"namespace": "ns", "key": "k"}, {"namespace": TEXT, "key": TEXT}),
    RequestCode.GET_KVLIST_BY_NAMESPACE: ({"namespace": "ns"}, {"namespace": TEXT}),
    RequestCode.REGISTER_BROKER: (
        BROKER,
        {
            "brokerName": TEXT,
            "brokerAddr": TEXT,
            "clusterName": TEXT,
            "brokerId": INT64,
            "bodyCrc32": OPTIONAL_INT32,
        },
    ),
    RequestCode.UNREGISTER_BROKER: (
        BROKER,
        {"brokerName": TEXT, "brokerAddr": TEXT, "clusterName": TEXT, "brokerId": INT64},
    ),
    RequestCode.QUERY_DATA_VERSION: (
        BROKER,
        {"brokerName": TEXT, "brokerAddr": TEXT, "clusterName": TEXT, "brokerId": INT64},
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ({"topic": "t"}, {"topic": TEXT}),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, {"brokerName": TEXT}),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, {"brokerName": TEXT}),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: ({"topic": "t"}, {"topic": TEXT}),
    RequestCode.GET_TOPICS_BY_CLUSTER: ({"cluster": "cluster"}, {"cluster": TEXT}),
}
WRONG_FIELDS = [
    pytest.param(code, without(fields, name), name, value, id=f"{code}-{name}-{value[:24]}")
    for code, (fields, wrong) in WRONG.items()
    for name, values in wrong.items()
    for value in values
]


async def filled(nameserver: NameserverOnBytes) -> object:
    """Put something into every table, and return what is there."""
    await good(nameserver, registration(TopicConfig("t", perm=4), TopicConfig("u"), filter_servers=["f"]))
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k", value="v"))
    return nameserver.everything()


@pytest.mark.parametrize("serialize_type", SerializeType)
@pytest.mark.parametrize(("code", "others", "name", "value"), WRONG_FIELDS)
async def test_a_wrong_field_is_named_and_changes_nothing(
    nameserver: NameserverOnBytes,
    code: int,
    others: dict[str, str],
    name: str,
    value: str,
    serialize_type: SerializeType,
) -> None:
    before = await filled(nameserver)
    command = request(code, **others)
    if value != "missing":
        command.ext_fields = {**others, name: "" if value == "empty" else value}
    command.serialize_type = serialize_type
    reply = await nameserver.ask(command)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert name in reply.remark
    assert len(reply.remark) < 300
    assert nameserver.everything() == before


REGISTRATION_BODY = registration(TopicConfig("t"), TopicConfig("v"), counter=9, filter_servers=["f"]).body or b""
COMPRESSED_BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=wrapper_of(TopicConfig("t"), TopicConfig("v"), counter=9)
).encode_compressed()


def _expect_refused_or_whole(body: bytes) -> bool:
    """Whether a body may be taken: only if it is a JSON object (of any content) or nothing."""
    try:
        return not body or isinstance(json.loads(body), dict | type(None))
    except ValueError:
        return False


@pytest.mark.parametrize("cut", range(1, len(REGISTRATION_BODY)))
async def test_a_truncated_registration_is_refused_and_changes_nothing(nameserver: NameserverOnBytes, cut: int) -> None:
    before = await filled(nameserver)
    command = registration()
    command.body = REGISTRATION_BODY[:cut]
    reply = await nameserver.ask(command)
    assert reply is not None
    assert (reply.code, nameserver.everything()) == (ResponseCode.SYSTEM_ERROR, before)
    assert reply.remark is not None
    assert reply.remark.startswith("body: ")


@pytest.mark.parametrize("cut", range(1, len(COMPRESSED_BODY)))
async def test_a_truncated_compressed_registration_is_refused_and_changes_nothing(
    nameserver: NameserverOnBytes, cut: int
) -> None:
    before = await filled(nameserver)
    command = registration(compressed="true")
    command.body = COMPRESSED_BODY[:cut]
    reply = await nameserver.ask(command)
    assert reply is not None
    assert (reply.code, nameserver.everything()) == (ResponseCode.SYSTEM_ERROR, before)


async def test_a_compressed_registration_that_unpacks_without_end_is_refused(nameserver: NameserverOnBytes) -> None:
    """A frame of 16 MiB could be 16 GiB in memory."""
    before = await filled(nameserver)
    command = registration(compressed="true")
    deflate, zeros = zlib.compressobj(), bytes(1 << 20)
    command.body = b"".join([*(deflate.compress(zeros) for _ in range(512)), deflate.flush()])
    reply = await nameserver.ask(command)
    assert reply is not None
    assert (reply.code, nameserver.everything()) == (ResponseCode.SYSTEM_ERROR, before)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    body=st.binary(max_size=200) | st.text(max_size=50).map(str.encode),
    code=st.sampled_from((RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION)),
    is_compressed=st.booleans(),
    version=st.sampled_from((0, 36, 37, 409, -1)),
)
async def test_random_bytes_as_a_body_are_answered_and_change_nothing(
    nameserver: NameserverOnBytes, body: bytes, code: int, is_compressed: bool, version: int
) -> None:
    if not is_compressed and _expect_refused_or_whole(body):
        return
    if nameserver.route_info.statistics().brokers == 0:
        await filled(nameserver)
    before = nameserver.everything()
    command = registration(compressed="true" if is_compressed else "false")
    command.code = code
    command.body = body or b"\x00"
    command.version = version
    reply = await nameserver.ask(command)
    assert reply is not None
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert reply.remark.startswith("body: ")
    assert nameserver.everything() == before


@pytest.mark.parametrize("code", [9998, 0, -1, 32767, RequestCode.SEND_MESSAGE])
async def test_an_unknown_code_is_answered_and_noted_once(nameserver: NameserverOnBytes, code: int) -> None:
    """Java's nameserver is silent, and its caller times out."""
    for _ in range(2):
        reply = await asked(nameserver, code)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == f" request type {int(code)} not supported"
    assert nameserver.unsupported == [code]
