"""Settings of a running broker, changed by request: what counts at once, what the next start finds, what stays."""

from __future__ import annotations

from pathlib import Path

import attrs

from rocketpy.broker.start_settings import BrokerSettings, StartOptions, load_broker_settings
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.client import RemotingClient
from tests.broker.test_app import client_of, pull, send
from tests.client.real_cluster import open_real_cluster
from tests.remoting.patient_client import open_patient_client

FILE = """\
# ours, with comments
namesrvAddr=
bindAddress=127.0.0.1
brokerIP1 = 127.0.0.1
brokerIP2 = 127.0.0.1
brokerName=broker-a
mappedFileSizeCommitLog=1048576
maxHashSlotNum=1000
maxIndexNum=4000
# a busy machine is no reason to refuse sends
waitTimeMillsInSendQueue=60000
osPageCacheBusyTimeOutMills=60000
# how much a pull returns
maxTransferCountOnMessageInMemory = 5
"""


def settings_of(path: Path) -> BrokerSettings:
    options = StartOptions(config_file=str(path), store_path=str(path.parent / "store"), port=0)
    return load_broker_settings(options)


def update(text: str) -> RemotingCommand:
    return make_request(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def count(answer: RemotingCommand) -> int:
    return len(list(decode_messages(answer.body or b"")))


async def test_a_change_is_felt_by_the_next_request_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(FILE)
    async with client_of(settings_of(path)) as (client, broker):
        for _ in range(20):
            assert (await client.request(broker.address, send())).code == ResponseCode.SUCCESS
        assert count(await client.request(broker.address, pull())) == 5
        answer = await client.request(broker.address, update("maxTransferCountOnMessageInMemory=7\ntraceOn=false"))
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert count(await client.request(broker.address, pull())) == 7
        sent = await client.request(broker.address, send())
        assert (sent.ext_fields or {})["TRACE_ON"] == "false"
    changed = FILE.replace("maxTransferCountOnMessageInMemory = 5", "maxTransferCountOnMessageInMemory=7")
    assert path.read_text() == changed + "traceOn=false\n"
    async with client_of(settings_of(path)) as (client, broker):
        assert count(await client.request(broker.address, pull())) == 7


async def test_automatic_creation_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(FILE)
    async with client_of(settings_of(path)) as (client, broker):
        text = "autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false"
        assert (await client.request(broker.address, update(text))).code == ResponseCode.SUCCESS
        assert (await client.request(broker.address, send("new"))).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await client.request(broker.address, pull())).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_broker_whose_permission_goes_takes_no_part(tmp_path: Path) -> None:
    """``brokerPermission``: nothing is read any more."""
    path = tmp_path / "broker.conf"
    path.write_text(FILE)
    async with client_of(settings_of(path)) as (client, broker):
        await client.request(broker.address, send())
        assert (await client.request(broker.address, pull())).code == ResponseCode.SUCCESS
        await client.request(broker.address, update("brokerPermission=2"))
        answer = await client.request(broker.address, pull())
        assert (answer.code, answer.remark) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] pulling message is forbidden",
        )


async def test_what_the_start_would_refuse_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(FILE)
    async with client_of(settings_of(path)) as (client, broker):
        answer = await client.request(broker.address, update("haHousekeepingInterval=5000"))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("nothing has changed: haHousekeepingInterval = 5000: expected more")
    assert path.read_text() == FILE


async def test_without_a_file_a_change_is_kept_in_the_store(tmp_path: Path) -> None:
    options = StartOptions(store_path=str(tmp_path), port=0, namesrv_addr="127.0.0.1:1")
    settings = attrs.evolve(load_broker_settings(options), host="127.0.0.1")
    async with client_of(settings) as (client, broker):
        await client.request(broker.address, update("fileReservedTime=5"))
    assert (tmp_path / "config" / "broker.properties").read_text() == "fileReservedTime=5\n"
    assert load_broker_settings(options).store.file_reserved_time == 5


async def route_perms(client: RemotingClient, nameserver: str, topic: str) -> set[int]:
    header = GetRouteInfoRequestHeader(topic=topic)
    answer = await client.request(nameserver, make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
    return {queue.perm for queue in decode_body(answer.body, TopicRouteData).queue_datas}


async def test_nameservers_learn_a_new_permission_before_it_is_answered(tmp_path: Path) -> None:
    """Copies of all topics with the broker's permission; the broker's own table keeps its own."""
    async with open_real_cluster(tmp_path) as cluster, open_patient_client() as client:
        for permission, perms in (("4", {4}), ("6", {6})):
            answer = await client.request(cluster.broker_address, update(f"brokerPermission={permission}"))
            assert answer.code == ResponseCode.SUCCESS
            assert await route_perms(client, cluster.address, "SELF_TEST_TOPIC") == perms
