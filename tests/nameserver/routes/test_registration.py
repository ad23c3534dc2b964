"""Registration, unregistration and data versions, as bytes in and bytes out."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

from rocketpy.nameserver.routes.requests import FAQ_SUFFIX
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import TopicRouteData
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX
from rocketpy.protocol.frame import encode_frame
from tests.nameserver.namesrv_requests import (
    BROKER,
    MASTER,
    REGISTERED,
    SLAVE,
    asked,
    filled,
    good,
    registration,
    request,
    topics_by,
    wrapper_of,
)

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


async def test_a_slave_gets_its_masters_address(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration())
    reply = await good(nameserver, registration(addr=SLAVE, broker_id=1))
    assert reply.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": MASTER}


async def test_a_registration_without_a_body_brings_no_topics(nameserver: NameserverOnBytes) -> None:
    command = registration()
    command.body = None
    await good(nameserver, command)
    no_topics = encode_body(DataVersion(timestamp=0, counter=0))
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, no_topics, **REGISTERED)
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
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark is not None
    assert reply.remark.startswith("crc32 not match: bodyCrc32 is 5, the body has ")
    assert nameserver.route_info.statistics().brokers == 0


async def test_a_broker_that_asks_with_the_known_version_stays_alive(nameserver: NameserverOnBytes) -> None:
    known = encode_body(DataVersion(timestamp=5, counter=1))
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, known, **REGISTERED)
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, None)
    connection = nameserver.connect()
    await nameserver.ask(registration(), connection)
    nameserver.now = 100.0
    other = encode_body(DataVersion(timestamp=5, counter=2))
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, other, **REGISTERED)
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, known)
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, known, **REGISTERED)
    assert (reply.ext_fields, reply.body) == ({"changed": "false"}, known)
    nameserver.now = 220.0
    nameserver.housekeeping.scan_not_active_brokers()
    assert nameserver.route_info.statistics().live_addresses == 1


async def test_a_question_without_a_version_is_refused(nameserver: NameserverOnBytes) -> None:
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, **BROKER)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "body: expected a DataVersion, found nothing")


async def test_an_unregistered_broker_is_gone(nameserver: NameserverOnBytes) -> None:
    await good(nameserver, registration(TopicConfig("t")))
    for _ in range(2):
        await good(nameserver, request(RequestCode.UNREGISTER_BROKER, **REGISTERED))
    reply = await asked(nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert reply.remark == f"No topic route info in name server for the topic: t{FAQ_SUFFIX}"


async def test_a_oneway_registration_counts_and_is_not_answered(nameserver: NameserverOnBytes) -> None:
    command = registration(TopicConfig("t"))
    command.flag = 2
    assert await nameserver.ask_frame(encode_frame(command)) is None
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t"]


async def test_a_registering_broker_gets_the_order_topics(nameserver: NameserverOnBytes) -> None:
    where = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, value="broker-a:4", **where))
    assert (await good(nameserver, registration())).body == b'{"table":{"t":"broker-a:4"}}'
    await good(nameserver, request(RequestCode.DELETE_KV_CONFIG, **where))
    assert (await good(nameserver, registration())).body == b'{"table":{}}'


_WRAPPER = wrapper_of(TopicConfig("t"), TopicConfig("v"), counter=9)
BODIES = {
    "false": encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=_WRAPPER, filter_server_list=["f"])),
    "true": RegisterBrokerBody(topic_config_serialize_wrapper=_WRAPPER).encode_compressed(),
}
"""Whole registrations, by what their field ``compressed`` says."""


@pytest.mark.parametrize(("compressed", "body"), BODIES.items(), ids=BODIES)
async def test_a_truncated_registration_is_refused_and_changes_nothing(
    nameserver: NameserverOnBytes, compressed: str, body: bytes
) -> None:
    before = await filled(nameserver)
    command = registration(compressed=compressed)
    for cut in range(1, len(body)):
        command.body = body[:cut]
        reply = await nameserver.ask(command)
        assert (cut, reply.code, nameserver.everything()) == (cut, ResponseCode.SYSTEM_ERROR, before)
        assert (reply.remark or "").startswith("body: "), cut


async def test_a_compressed_registration_that_unpacks_without_end_is_refused(nameserver: NameserverOnBytes) -> None:
    """A frame of 16 MiB could be 16 GiB in memory."""
    before = await filled(nameserver)
    command = registration(compressed="true")
    deflate, zeros = zlib.compressobj(), bytes(1 << 20)
    count = DECOMPRESSED_SIZE_MAX // len(zeros) + 1
    command.body = b"".join([*(deflate.compress(zeros) for _ in range(count)), deflate.flush()])
    reply = await nameserver.ask(command)
    assert f"expected at most {DECOMPRESSED_SIZE_MAX} bytes out of ZLIB" in (reply.remark or "")
    assert (reply.code, nameserver.everything()) == (ResponseCode.SYSTEM_ERROR, before)
