"""The settings that bound a nameserver, each seen through requests; and that long requests leave room for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from rocketpy.nameserver.config import NamesrvConfig, default_server_config
from rocketpy.nameserver.routes.registration import REGISTERING_BYTES_MAX, VERSION_SIZE_MAX
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import TopicList
from rocketpy.protocol.bodies.topic import RegisterBrokerBody, TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.settings import settings_from_text
from tests.nameserver.namesrv_requests import MASTER, asked, good, registration, request, topics_by, wrapper_of
from tests.nameserver.test_app import running
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client

if TYPE_CHECKING:
    from conftest import NameserverOnBytes

Make = Callable[..., "NameserverOnBytes"]


def from_file(text: str) -> dict[str, object]:
    """Return what a line of namesrv.conf sets, as arguments of NamesrvConfig."""
    loaded = settings_from_text(text, "namesrv.conf", NamesrvConfig, default_server_config()).of(NamesrvConfig)
    default = NamesrvConfig()
    names = [each for each in dir(default) if not each.startswith("_") and each.islower()]
    return {name: getattr(loaded, name) for name in names if getattr(loaded, name) != getattr(default, name)}


async def refused(nameserver: NameserverOnBytes, command: RemotingCommand, setting: str) -> None:
    before = nameserver.everything()
    reply = await nameserver.ask(command)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert setting in (reply.remark or "")
    assert nameserver.everything() == before


async def test_addresses_of_brokers(make_nameserver: Make) -> None:
    nameserver = make_nameserver(**from_file("brokersMax=2"))
    for number in range(2):
        await good(nameserver, registration(addr=f"10.0.0.{number}:1", broker_id=number))
    await refused(nameserver, registration(addr="10.0.0.2:1", broker_id=2), "brokersMax")
    await good(nameserver, registration(addr="10.0.0.1:1", broker_id=1))


async def test_brokers_over_one_connection(make_nameserver: Make) -> None:
    nameserver = make_nameserver(**from_file("brokersPerConnectionMax=2"))
    shared = nameserver.connect()
    replies = [
        await nameserver.ask(registration(addr=f"10.0.0.{number}:1", broker_id=number), shared) for number in range(3)
    ]
    assert [reply.code for reply in replies] == [0, 0, ResponseCode.SYSTEM_ERROR]
    assert "brokersPerConnectionMax" in (replies[2].remark or "")
    await good(nameserver, registration(addr="10.0.0.2:1", broker_id=2))


async def test_topics_of_one_broker(make_nameserver: Make) -> None:
    nameserver = make_nameserver(**from_file("topicsPerBrokerMax=2"))
    await refused(nameserver, registration(*map(TopicConfig, "abc")), "at most 2 topics, found 3")
    await good(nameserver, registration(*map(TopicConfig, "ab")))
    reply = await nameserver.ask(registration(*map(TopicConfig, "bc"), counter=2))
    assert (reply.code, reply.remark) == (
        ResponseCode.SUCCESS,
        "1 topics have no room (topicsMax, topicsPerBrokerMax, routesMax)",
    )
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["a", "b"]


@pytest.mark.parametrize(("text", "topics"), [("topicsMax=3", ["a", "b", "c"]), ("routesMax=4", ["a", "b", "c"])])
async def test_topics_and_routes_of_all_brokers(make_nameserver: Make, text: str, topics: list[str]) -> None:
    """The broker is registered, and its other topics are."""
    nameserver = make_nameserver(**from_file(text))
    await good(nameserver, registration(*map(TopicConfig, "ab")))
    command = registration(*map(TopicConfig, "acde"), addr="10.0.0.2:1")
    assert command.ext_fields is not None
    command.ext_fields["brokerName"] = "broker-b"
    reply = await nameserver.ask(command)
    assert reply.code == ResponseCode.SUCCESS
    assert (reply.remark or "").startswith("2 topics have no room")
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == topics
    assert nameserver.route_info.statistics().brokers == 2


@pytest.mark.parametrize(
    ("text", "setting"), [("kvConfigEntriesMax=2", "kvConfigEntriesMax"), ("kvConfigBytesMax=15", "kvConfigBytesMax")]
)
async def test_the_kv_configuration(make_nameserver: Make, text: str, setting: str) -> None:
    nameserver = make_nameserver(**from_file(text))
    await good(nameserver, request(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k", value="v"))
    await refused(nameserver, request(RequestCode.PUT_KV_CONFIG, namespace="ns", key="l", value="vv"), setting)
    await refused(nameserver, request(RequestCode.PUT_KV_CONFIG, namespace="ns", key="$ref", value="$.x"), "$ref")


async def test_only_allowed_addresses_change_routes(tmp_path: Path) -> None:
    for allowed, code in (("10.0.0.1", ResponseCode.NO_PERMISSION), ("10.0.0.1;127.0.0.0/8", ResponseCode.SUCCESS)):
        async with (
            running(tmp_path, **from_file(f"routeChangeAllowList={allowed}")) as address,
            open_patient_client() as client,
        ):
            with trio.fail_after(PATIENCE_SECONDS):
                reply = await client.request(address, registration(TopicConfig("t")))
                assert reply.code == code
                reply = await client.request(address, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t"))
                known = ResponseCode.SUCCESS if code == ResponseCode.SUCCESS else ResponseCode.TOPIC_NOT_EXIST
                assert reply.code == known


async def test_a_live_broker_is_left_to_its_host_if_the_settings_say_so(make_nameserver: Make) -> None:
    for is_enabled in (True, False):
        nameserver = make_nameserver(**from_file(f"brokerTakeoverEnable={str(is_enabled).lower()}"))
        own = nameserver.connect("10.0.0.1")
        await nameserver.ask(registration(TopicConfig("t")), own)
        before = nameserver.everything()
        commands = [registration(addr="6.6.6.6:1"), registration(counter=2), registration()]
        commands[2].code = RequestCode.UNREGISTER_BROKER
        for command in commands:
            reply = await nameserver.ask(command, nameserver.connect("6.6.6.6"))
            assert reply.code == (ResponseCode.SUCCESS if is_enabled else ResponseCode.NO_PERMISSION)
            if not is_enabled:
                assert "is live at 10.0.0.1:10911, registered from 10.0.0.1 (broker" in (reply.remark or "")
                assert nameserver.everything() == before
        if not is_enabled:
            # Its own host may, over another connection too; and so may anyone when it has gone.
            reply = await nameserver.ask(registration(addr=MASTER, counter=3), nameserver.connect("10.0.0.1"))
            assert reply.code == ResponseCode.SUCCESS
            holder = nameserver.route_info.holder_of(MASTER)
            assert holder is not None
            holder.close()
            reply = await nameserver.ask(registration(addr="6.6.6.6:1"), nameserver.connect("6.6.6.6"))
            assert reply.code == ResponseCode.SUCCESS


# -- long requests ----------------------------------------------------------------------------------------------------


def long_registration(count: int = 4000, *, is_compressed: bool = False, **more: object) -> RemotingCommand:
    wrapper = wrapper_of(*(TopicConfig(f"t{number}") for number in range(count)))
    command = registration(compressed=str(is_compressed).lower(), **more)  # type: ignore[arg-type]
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    command.body = body.encode_compressed() if is_compressed else encode_body(body)
    return command


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_a_long_registration_is_whole_when_it_is_answered(
    nameserver: NameserverOnBytes, is_compressed: bool
) -> None:
    await good(nameserver, long_registration(is_compressed=is_compressed))
    names = await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert names == [f"t{number}" for number in range(4000)]
    for code, perm in ((RequestCode.WIPE_WRITE_PERM_OF_BROKER, 4), (RequestCode.ADD_WRITE_PERM_OF_BROKER, 6)):
        reply = await good(nameserver, request(code, brokerName="broker-a"))
        assert reply.ext_fields is not None
        assert list(reply.ext_fields.values()) == ["4000"]
        for topic in ("t0", "t3999"):
            route = nameserver.route_info.pick_up_topic_route_data(topic)
            assert route is not None
            assert route.queue_datas[0].perm == perm
    reply = await good(nameserver, request(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="cluster"))
    assert reply.body == encode_body(TopicList(topic_list=names))


@pytest.mark.parametrize("steps", range(0, 30, 3))
async def test_a_broker_that_leaves_while_it_is_registered_is_not_there(
    nameserver: NameserverOnBytes, steps: int
) -> None:
    connection = nameserver.connect()
    connection.receive(encode_frame(long_registration()))
    connection.serve(1)
    ((function, arguments),) = nameserver.transport.tasks
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function, *arguments)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        connection.close()
    assert nameserver.route_info.statistics().live_addresses == 0
    assert await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == []
    while nameserver.route_info.purge():
        pass
    nameserver.route_info.check_invariants()


async def test_one_long_registration_of_a_connection_at_a_time(nameserver: NameserverOnBytes) -> None:
    connection = nameserver.connect()
    connection.receive(encode_frame(long_registration()))
    connection.serve(1)
    first, nameserver.transport.tasks = nameserver.transport.tasks, []
    reply = await nameserver.ask(registration(), connection)
    assert reply.code == ResponseCode.SYSTEM_BUSY
    await good(nameserver, registration(addr="10.0.0.7:1"))
    for function, arguments in first:
        await function(*arguments)
    assert b'{"code":0,' in connection.take_outgoing()
    assert nameserver.route_info.statistics().topics == 4000
    reply = await nameserver.ask(registration(), connection)
    assert reply.code == ResponseCode.SUCCESS


async def test_bodies_that_are_registered_at_a_time_are_bounded(
    nameserver: NameserverOnBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REGISTERING_BYTES_MAX >= 16 * (1 << 24)
    monkeypatch.setattr("rocketpy.nameserver.routes.registration.REGISTERING_BYTES_MAX", 1_300_000)
    connections = [nameserver.connect() for _ in range(3)]
    for connection in connections:
        connection.receive(encode_frame(long_registration()))
        connection.serve(1)
    assert len(nameserver.transport.tasks) == 2
    assert b'{"code":2,' in connections[2].take_outgoing()


async def test_the_body_of_a_question_for_the_version_is_short(nameserver: NameserverOnBytes) -> None:
    fields = {"brokerName": "b", "brokerAddr": "1.2.3.4:5", "clusterName": "c", "brokerId": "0"}
    body = b'{"counter":1,"unknown":"' + b"x" * VERSION_SIZE_MAX + b'"}'
    reply = await asked(nameserver, RequestCode.QUERY_DATA_VERSION, body, **fields)
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"body: expected at most {VERSION_SIZE_MAX} bytes, found {len(body)}",
    )


async def test_parts_of_a_registration_are_merged(nameserver: NameserverOnBytes) -> None:
    """A broker of many topics sends them in parts, each with a version of its own, the last with the table's."""
    for number, counter in enumerate((-7, -8, 5)):
        topics = [TopicConfig(f"t{number}{each}") for each in range(3)]
        await good(nameserver, registration(*topics, counter=counter))
    await good(nameserver, registration(TopicConfig("late"), counter=5))  # a life sign: the version is known
    names = await topics_by(nameserver, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert names == [f"t{number}{each}" for number in range(3) for each in range(3)]
