"""The doctor on a real cluster, with faults that were planted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.broker_requests import Handler
from rocketpy.client.client import open_admin_client
from rocketpy.client.diagnosis.doctor import Diagnosis, Doctor
from rocketpy.client.diagnosis.finding import Severity
from rocketpy.clock import ManualClock, SystemClock
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.route import ClusterInfo
from rocketpy.protocol.bodies.running import ConsumerRunningInfo
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.client.opened import opened
from tests.client.real_cluster import open_real_cluster

QUEUE = MessageQueue(T, BROKER, 0)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealScene]:
    async with scene(tmp_path) as opened_scene:
        yield opened_scene


@asynccontextmanager
async def scene(directory: Path, **broker_settings: object) -> AsyncIterator[RealScene]:
    async with open_real_cluster(directory, **broker_settings) as cluster, opened(cluster.address) as instance:
        yield RealScene(cluster, instance, AdminClient(instance=instance))


async def diagnosed(admin: AdminClient) -> Diagnosis:
    return await Doctor(admin, clock=SystemClock(), watch_seconds=0).diagnose()


def problems(diagnosis: Diagnosis) -> list[str]:
    return [each.check for each in diagnosis.findings if each.severity is Severity.PROBLEM if each.check != "disk-full"]


def subscribed_to(expression: str) -> Handler:
    async def running_info(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        info = ConsumerRunningInfo(subscription_set=[SubscriptionData(T, expression)])
        return make_response(request, body=encode_body(info))

    return running_info


async def test_a_cluster_that_is_well_has_notes_only(real: RealScene) -> None:
    diagnosis = await diagnosed(real.admin)
    assert problems(diagnosis) == []
    assert {"single-copy", "async-flush"} <= {each.check for each in diagnosis.findings}
    assert (diagnosis.broker_count, diagnosis.group_count) == (1, 0)


async def test_an_advertised_address_that_nobody_reaches_is_named(tmp_path: Path) -> None:
    async with scene(tmp_path, broker_ip1="127.0.0.2") as real:
        diagnosis = await diagnosed(real.admin)
    assert problems(diagnosis) == ["address-unreachable"]
    finding = diagnosis.findings[0]
    assert "broker-a master 127.0.0.2:" in finding.subject
    assert "127.0.0.2" in finding.problem
    assert diagnosis.problem_count >= 1


async def test_a_clock_that_is_an_hour_off(real: RealScene) -> None:
    clock = ManualClock(SystemClock().timestamp_ms() + 3_600_000)
    diagnosis = await Doctor(real.admin, clock=clock, watch_seconds=0).diagnose()
    assert problems(diagnosis) == ["clock-skew"]


async def test_messages_that_wait_with_and_without_a_consumer(real: RealScene) -> None:
    await real.admin.topics.create(T, queue_nums=1)
    await real.send(*(Message(T, b"%d" % number) for number in range(3)))
    async with real.online("g"):
        await real.admin.offsets.commit(real.broker, "g", QUEUE, 3)
        assert problems(await diagnosed(real.admin)) == []
        await real.admin.offsets.commit(real.broker, "g", QUEUE, 0)
        diagnosis = await diagnosed(real.admin)
        assert problems(diagnosis) == ["stuck-queue"]
        assert any("3 messages wait in Administered broker-a:0" in each.problem for each in diagnosis.findings)
    diagnosis = await diagnosed(real.admin)
    assert problems(diagnosis) == ["no-consumer"]
    assert diagnosis.group_count == 1
    kinds = [each.severity for each in diagnosis.findings]
    assert kinds == sorted(kinds, reverse=True), "problems come first"
    assert set(kinds) == {Severity.PROBLEM, Severity.NOTE}


async def test_consumers_of_a_group_with_different_subscriptions(real: RealScene) -> None:
    await real.admin.topics.create(T, queue_nums=1)
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    async with AsyncExitStack() as stack:
        for number, expression in enumerate(("a", "b")):
            instance = await stack.enter_async_context(opened(real.cluster.address, instance_name=f"i{number}"))
            member = RealScene(real.cluster, instance, AdminClient(instance=instance))
            await stack.enter_async_context(member.online("g", handlers={code: subscribed_to(expression)}))
        diagnosis = await diagnosed(real.admin)
    assert problems(diagnosis) == ["inconsistent-subscriptions"]
    assert any("i0 to Administered (a)" in each.problem for each in diagnosis.findings)


async def test_nameservers_that_are_away_or_know_less(real: RealScene) -> None:
    async with open_fake_cluster() as other:
        other.name_server.cluster_info = ClusterInfo()
        servers = f"{real.cluster.address};{other.address};127.0.0.1:1"
        async with open_admin_client(servers) as admin:
            diagnosis = await diagnosed(admin)
    assert sorted(problems(diagnosis)) == ["nameserver-unreachable", "nameservers-differ"]
    named = {each.check: each.subject for each in diagnosis.findings}
    assert named["nameserver-unreachable"] == "nameserver 127.0.0.1:1"
    assert named["nameservers-differ"] == f"nameserver {other.address}"


async def test_without_any_nameserver_that_is_all_that_is_found() -> None:
    async with open_admin_client("127.0.0.1:1") as admin:
        diagnosis = await diagnosed(admin)
    assert problems(diagnosis) == ["nameserver-unreachable"]
    assert (diagnosis.broker_count, diagnosis.group_count) == (0, 0)


async def test_a_broker_that_is_taken_for_a_nameserver(cluster: FakeCluster) -> None:
    async with open_admin_client(cluster.brokers[0].address) as admin:
        (finding,) = (await diagnosed(admin)).findings
    assert finding.check == "nameserver-unreachable"
    assert finding.problem.startswith("this is a broker: CODE: 3 ")
    assert finding.advice.startswith("Name the nameserver, which listens on port 9876")


async def test_a_nameserver_without_a_broker(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.name_server.cluster_info = ClusterInfo()
    assert problems(await diagnosed(admin)) == ["no-broker"]


async def test_what_cannot_be_asked_is_a_finding_too(cluster: FakeCluster, admin: AdminClient) -> None:
    """A broker that refuses its figures, groups whose progress nobody says, and no list of topics."""
    cluster.add_topic("%RETRY%g")
    diagnosis = await diagnosed(admin)
    assert problems(diagnosis) == ["broker-refuses"]
    assert [each.subject for each in diagnosis.findings if each.check == "group-unknown"] == ["group g"]
    cluster.name_server.refuse(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, ResponseCode.SYSTEM_ERROR, "no")
    assert "groups-unknown" in [each.check for each in (await diagnosed(admin)).findings]


async def test_a_group_whose_members_are_not_known_is_not_said_to_have_none(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.add_topic("%RETRY%g")
    stats = encode_body(ConsumeStats({MessageQueue("T", BROKER, 0): OffsetWrapper(10, 1)}))
    cluster.broker.answer(RequestCode.GET_CONSUME_STATS, stats)
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    cluster.broker.answer(code)
    cluster.broker.refuse(code, ResponseCode.SYSTEM_ERROR, "broken")
    assert "no-consumer" not in problems(await diagnosed(admin))
    cluster.broker.refuse(code, ResponseCode.CONSUMER_NOT_ONLINE, "not online")
    assert "no-consumer" in problems(await diagnosed(admin))
    cluster.broker.behave()
    assert "no-consumer" not in problems(await diagnosed(admin)), "an answer that is none"
