"""A nameserver on a real socket: the same answers, brokers that leave with their connection, and a clean end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import (
    TopicConfig,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader, PutKVConfigRequestHeader
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.store.disk.os_disk import OsDisk
from tests.nameserver.namesrv_requests import MASTER, registration
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def running(directory: Path, port: int = 0, **settings: object) -> AsyncIterator[str]:
    """Run a nameserver over a directory; yields its address."""
    config = NamesrvConfig(
        kv_config_path=str(directory / "kvConfig.json"),
        config_store_path=str(directory / "namesrv.properties"),
        **settings,  # type: ignore[arg-type]
    )

    async def run(task_status: trio.TaskStatus[int]) -> None:
        server_config = NettyServerConfig(listen_port=port)
        await run_nameserver(config, server_config, host=LOOPBACK, disk=OsDisk(), task_status=task_status)

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(run)
        yield f"{LOOPBACK}:{bound}"
        nursery.cancel_scope.cancel()


async def test_a_broker_is_routed_while_it_is_connected(tmp_path: Path) -> None:
    route = make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic="t"))
    with trio.fail_after(PATIENCE_SECONDS):
        async with running(tmp_path) as address, open_patient_client() as client:
            async with open_patient_client() as broker:
                reply = await broker.request(address, registration(TopicConfig("t")))
                assert reply.code == ResponseCode.SUCCESS
                reply = await client.request(address, route)
                assert decode_body(reply.body, TopicRouteData).broker_datas[0].broker_addrs == {0: MASTER}
            while (await client.request(address, route)).code == ResponseCode.SUCCESS:
                await trio.lowlevel.checkpoint()
            reply = await client.request(address, make_request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
            assert decode_body(reply.body, TopicList).topic_list == []


async def test_a_nameserver_that_stops_warns_of_no_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_patient_client() as broker, running(tmp_path) as address:
            reply = await broker.request(address, registration(TopicConfig("t")))
            assert reply.code == ResponseCode.SUCCESS
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


async def test_what_was_put_survives_a_restart(tmp_path: Path) -> None:
    header = PutKVConfigRequestHeader(namespace="ns", key="k", value="v")
    with trio.fail_after(PATIENCE_SECONDS):
        async with running(tmp_path) as address, open_patient_client() as client:
            reply = await client.request(address, make_request(RequestCode.PUT_KV_CONFIG, header))
            assert reply.code == ResponseCode.SUCCESS
        assert (tmp_path / "kvConfig.json").is_file(), "where kvConfigPath says"
        async with running(tmp_path) as address, open_patient_client() as client:
            reply = await client.request(address, make_request(RequestCode.GET_KV_CONFIG, header))
            assert reply.ext_fields == {"value": "v"}


async def test_an_unknown_request_code_is_answered_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with running(tmp_path) as address, open_patient_client() as client:
            for _ in range(2):
                reply = await client.request(address, make_request(9998))
                assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert [record.getMessage() for record in caplog.records if record.name == "rocketpy.nameserver"] == [
        "request code 9998 is not supported"
    ]


async def test_several_nameservers_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            running(tmp_path / "1") as first,
            running(tmp_path / "2") as second,
            open_patient_client() as client,
        ):
            await client.request(first, registration(TopicConfig("t")))
            topics = []
            for address in (first, second):
                request = make_request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
                reply = await client.request(address, request)
                topics.append(decode_body(reply.body, TopicList).topic_list)
            assert topics == [["t"], []]
