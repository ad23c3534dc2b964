"""What all roles of a client share: an identity and requests."""

from __future__ import annotations

import pytest

from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import ClientInstance, open_client_instance, read_response
from rocketpy.errors import BrokerError, RemoteProtocolError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetResponseHeader
from rocketpy.protocol.signature import SessionCredentials, proved_content, shape_of_request, signed_for
from rocketpy.protocol.signing_key import SigningKey
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened


async def test_clients_of_one_process_have_ids_of_their_own(cluster: FakeCluster) -> None:
    async with (
        open_client_instance(ClientConfig(name_servers=cluster.address)) as first,
        open_client_instance(ClientConfig(name_servers=cluster.address)) as second,
    ):
        assert first.client_id != second.client_id


async def test_a_response_code_that_is_expected_is_no_error(cluster: FakeCluster, instance: ClientInstance) -> None:
    request = make_request(RequestCode.GET_NAMESRV_CONFIG)
    response = await instance.request(cluster.address, request, (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,))
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    with pytest.raises(BrokerError, match="request type 319 not supported"):
        await instance.request(cluster.address, request)


def test_an_answer_without_a_required_field_is_a_protocol_error() -> None:
    assert read_response(RemotingCommand(0, {"offset": "7"}), GetMaxOffsetResponseHeader).offset == 7
    with pytest.raises(RemoteProtocolError, match=r"GetMaxOffsetResponseHeader.*offset"):
        read_response(RemotingCommand(0, {}), GetMaxOffsetResponseHeader)


async def test_a_client_id_is_made_of_address_name_and_unit(cluster: FakeCluster) -> None:
    async with opened(cluster.address, instance_name="mine", unit_name="north") as instance:
        assert instance.client_id == f"{instance.address}@mine@north"
    async with opened(cluster.address, instance_name="mine", client_ip="10.0.0.7") as instance:
        assert instance.client_id == "10.0.0.7@mine"


async def test_the_vip_channel_is_the_brokers_port_less_two(cluster: FakeCluster, instance: ClientInstance) -> None:
    assert instance.broker_port_of("10.0.0.1:10911") == "10.0.0.1:10911"
    async with opened(cluster.address, vip_channel_enabled=True) as instance:
        assert instance.broker_port_of("10.0.0.1:10911") == "10.0.0.1:10909"
        assert instance.broker_port_of("[::1]:10911") == "[::1]:10909"
        for no_address in ("text", "host:port", "host:0", "host:" + "9" * 5000):
            assert instance.broker_port_of(no_address) == no_address


async def test_a_nameserver_gets_no_signature_before_it_asks_for_one(cluster: FakeCluster) -> None:
    credentials = SessionCredentials("an-account", "a-secret")
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    async with opened(cluster.address, credentials=credentials) as instance:
        await instance.name_servers.cluster_info()
        (bare,) = cluster.name_server.asked(code)
        assert not {"AccessKey", "Signature"} & (bare.ext_fields or {}).keys()
        cluster.name_server.refuse(code, ResponseCode.NO_PERMISSION)
        with pytest.raises(BrokerError):
            await instance.name_servers.cluster_info()
        cluster.broker.answer(RequestCode.GET_BROKER_RUNTIME_INFO)
        await instance.request(cluster.broker.address, make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
        (signed,) = cluster.broker.asked(RequestCode.GET_BROKER_RUNTIME_INFO)
        for request, at in ((cluster.name_server.asked(code)[-1], cluster.address), (signed, cluster.broker.address)):
            fields = request.ext_fields or {}
            assert fields["#signedFor"] == signed_for(request.code, at, shape_of_request(fields, request.body))
            assert proved_content(fields, request.body, SigningKey("a-secret"))
