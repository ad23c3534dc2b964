"""Fixtures of the interop tests: the cluster under test, the Java peer, and the plugin that looks for foreign tools.

ROCKETPY_INTEROP_TARGET=java runs the same tests against the Java broker, to tell a fault of ours from one of the test.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from rocketpy.client import Client
from tests.blackbox.processes import running_nameserver
from tests.docs.example_programs import BROKER_SETTINGS
from tests.interop import tools
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.java_store import JavaStores
from tests.interop.our_client import open_our_client
from tests.interop.roles import Roles

TARGET = os.environ.get("ROCKETPY_INTEROP_TARGET", "rocketpy")
JAVA_BROKER = "java-broker"
BROKERS = ["target"] if TARGET == "java" else ["target", JAVA_BROKER]
"""Parameters of a fixture that is the cluster under test and then Java's, see :func:`chosen_cluster`."""
_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, once even when another conftest does the same."""
    if not config.pluginmanager.is_registered(tools):
        config.pluginmanager.register(tools, "rocketpy-tools")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the cluster's logs to the report of a test that failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]  # pluggy's Result
    funcargs = getattr(item, "funcargs", {})
    cluster = funcargs.get("cluster") or funcargs.get("two_brokers")
    if report.failed and isinstance(cluster, Cluster):
        report.sections.append((f"logs of the {cluster.kind} cluster", cluster.logs()))


JAVA_SETTINGS = {**BROKER_SETTINGS, "enablePropertyFilter": "true"}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a nameserver of ours for all brokers that the tests of a module start."""
    with running_nameserver(tmp_path_factory.mktemp("namesrv")) as address:
        yield address


@pytest.fixture(scope="session")
def java_jars() -> Path:
    """The folder of the Java peer's jars."""
    tools.prepared("java")
    return tools.java_jars()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The nameserver and broker under test, one for all tests."""
    yield from _running(TARGET, tmp_path_factory.mktemp("cluster"), 1)


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A nameserver and two brokers under test."""
    yield from _running(TARGET, tmp_path_factory.mktemp("two-brokers"), 2)


@pytest.fixture(scope="session")
def java_cluster(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[Cluster]:
    """A Java nameserver and broker, for tests of our own clients; its users are marked ``java``.

    It evaluates SQL92 expressions, and asks about transactions every second.
    """
    yield from _running("java", tmp_path_factory.mktemp("java-cluster"), 1, JAVA_SETTINGS)


def chosen_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return the cluster that a parameter out of ``BROKERS`` names."""
    cluster: Cluster = request.getfixturevalue("cluster" if request.param == "target" else "java_cluster")
    assert cluster.kind == (TARGET if request.param == "target" else "java")
    return cluster


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[Roles]:
    """Java's producers and consumers."""
    with Roles("java", tmp_path_factory.mktemp("java-roles")) as roles:
        yield roles


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """Go's producers and consumers."""
    with Roles("go", tmp_path_factory.mktemp("go-roles")) as roles:
        yield roles


@pytest.fixture
async def ours(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of ours."""
    async with open_our_client(cluster.namesrv) as client:
        yield client


@pytest.fixture(scope="session")
def java_stores(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[JavaStores]:
    """Java's own store, in one JVM for all tests; its users are marked ``java``."""
    stores = JavaStores(tmp_path_factory.mktemp("java-stores"))
    yield stores
    stores.end()


def _running(
    kind: str, directory: Path, brokers: int, settings: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    started = start_cluster(kind, directory, brokers, settings)
    try:
        yield started
    finally:
        statuses = started.stop()
    assert not any(statuses), f"exit statuses {statuses}:\n{started.logs()}"


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of four queues that no other test uses."""
    return cluster.create_topic(unique_name(request))


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A consumer group that no other test uses."""
    return unique_name(request) + "_group"


def unique_name(request: pytest.FixtureRequest) -> str:
    """Return a name from the test's, in the characters that RocketMQ allows."""
    name = "".join(each if each.isalnum() else "_" for each in request.node.name)
    return f"{name[:80]}_{next(_numbers)}"
