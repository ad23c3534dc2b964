"""TLS with Java: its client against our broker, ours against its broker, with and without certificates to believe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trio

from rocketpy.client.client import open_admin_client, open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.results import SendStatus
from rocketpy.protocol.message import Message
from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.conftest import unique_name
from tests.patience import PATIENCE_SECONDS
from tests.remoting.certificate_files import crt, key

pytestmark = pytest.mark.java

TEST_MODE = {"tls.server.mode": "enforcing", "tls.enable": "false"}
MUTUAL = {
    "tls.server.mode": "enforcing",
    "tls.test.mode.enable": "false",
    "tls.server.certPath": crt("server"),
    "tls.server.keyPath": key("server"),
    "tls.server.need.client.auth": "require",
    "tls.server.authClient": "true",
    "tls.server.trustCertPath": crt("authority"),
    "tls.enable": "false",
}
"""The broker itself speaks to the nameserver, which takes both kinds, without TLS: so the tests can see its routes."""

KNOWN_CLIENT = {
    "tls.enable": "true",
    "tls.test.mode.enable": "false",
    "tls.client.authServer": "true",
    "tls.client.trustCertPath": crt("authority"),
    "tls.client.certPath": crt("client"),
    "tls.client.keyPath": key("client"),
}


def _running(directory: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    first = free_ports(8)
    namesrv, port = f"127.0.0.1:{first}", first + 4
    server = {name: value for name, value in settings.items() if name.startswith(("tls.server", "tls.test"))}
    cluster = Cluster("rocketpy", namesrv, {"broker-0": f"127.0.0.1:{port}"}, directory)
    try:
        permissive = {**server, "tls.server.mode": "permissive"}
        cluster.children.append(processes.start_nameserver(directory, first, permissive))
        broker = {**processes.broker_settings(directory, port, namesrv), **settings}
        cluster.children.append(processes.start_broker(directory, broker))
        processes.await_brokers(namesrv, {"broker-0"}, cluster.children)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module", params=["test mode", "mutual"])
def tls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """A broker that takes TLS only, and the options of a Java client that it takes."""
    settings, options = (TEST_MODE, {"tls.enable": "true"}) if request.param == "test mode" else (MUTUAL, KNOWN_CLIENT)
    java_options = " ".join(f"-D{name}={value}" for name, value in options.items())
    for cluster in _running(tmp_path_factory.mktemp("tls"), settings):
        yield cluster, java_options


def test_javas_client_sends_and_consumes_over_tls(
    tls: tuple[Cluster, str], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, java_options = tls
    topic = unique_name(request)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", java_options)
    asked = [ToSend(topic=topic, body=b"%d" % number) for number in range(20)]
    asked.append(ToSend(topic=topic, body=bytes(range(256)) * 2000))
    sent = produce("java", cluster.namesrv, asked, tmp_path / "produce")
    assert {each.status for each in sent} == {"SEND_OK"}
    arguments = {"namesrv": cluster.namesrv, "group": f"{topic}_group", "topic": topic}
    with Program("java", "consume", tmp_path / "consume", **arguments) as taking:
        assert sorted(each.body for each in taking.wait_messages(len(asked))) == sorted(each.body for each in asked)


async def test_our_client_sends_and_pulls_over_tls_from_java(
    tmp_path: Path, java_jars: Path, request: pytest.FixtureRequest
) -> None:
    """The Java broker's own default: permissive, with a certificate that no client can check."""
    java_cluster = start_cluster("java", tmp_path, settings={"tls.server.mode": "permissive"})
    request.addfinalizer(java_cluster.stop)
    topic = unique_name(request)
    config = ClientConfig(use_tls=True)
    large = bytes(range(256)) * 4000
    async with open_admin_client(java_cluster.namesrv, config=config) as admin:
        await admin.create_topic(topic, queue_nums=1)
    java_cluster.wait_route(topic)
    async with open_producer(java_cluster.namesrv, group="tls_producer", config=config) as producer:
        assert (await producer.send(Message(topic, large))).status is SendStatus.SEND_OK
    async with (
        open_pull_consumer(java_cluster.namesrv, group="tls_group", config=config) as consumer,
        consumer.open_messages(topic, start="beginning") as messages,
    ):
        with trio.fail_after(PATIENCE_SECONDS):
            assert (await anext(messages)).body == large
