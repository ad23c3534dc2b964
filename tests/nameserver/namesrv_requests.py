"""Requests to a nameserver over bytes, as tests of several modules send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import TopicList
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"
REGISTERED = {"brokerName": "broker-a", "brokerAddr": MASTER, "clusterName": "cluster", "brokerId": "0"}
"""The fields of the broker that :func:`registration` registers."""

BROKER = {"brokerName": "b", "brokerAddr": "1.2.3.4:5", "clusterName": "c", "brokerId": "0"}


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
    return await nameserver.ask(request(code, body, **fields))


async def good(nameserver: NameserverOnBytes, command: RemotingCommand) -> RemotingCommand:
    reply = await nameserver.ask(command)
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
    return reply


async def topics_by(nameserver: NameserverOnBytes, code: int, **fields: str) -> list[str]:
    reply = await good(nameserver, request(code, **fields))
    return decode_body(reply.body, TopicList).topic_list


async def filled(nameserver: NameserverOnBytes) -> object:
    """Put something into every table, and return what is there."""
    await good(nameserver, registration(TopicConfig("t", perm=4), TopicConfig("u"), filter_servers=["f"]))
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k", value="v"))
    return nameserver.everything()
