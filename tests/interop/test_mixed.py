"""Our nameserver under a Java broker, and our broker under a Java nameserver: registration in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.wire import Wire
from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster, start_cluster

pytestmark = pytest.mark.java


@pytest.fixture(params=[("java", "rocketpy"), ("rocketpy", "java")], ids=["java-broker", "java-nameserver"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A broker of one make at a nameserver of the other."""
    kind, namesrv_kind = request.param
    cluster = start_cluster(kind, tmp_path / "cluster", namesrv_kind=namesrv_kind)
    try:
        yield cluster
    finally:
        statuses = cluster.stop()
    assert not any(statuses), cluster.logs()


def test_clients_find_the_broker_and_it_leaves_when_it_stops(mixed: Cluster, tmp_path: Path) -> None:
    asked = [ToSend(topic="Mixed", body=str(index).encode()) for index in range(20)]
    sent = produce("java", mixed.namesrv, asked, tmp_path / "produce")
    assert {each.status for each in sent} == {"SEND_OK"}
    with Program(
        "java", "consume", tmp_path / "consume", namesrv=mixed.namesrv, group="mixed", topic="Mixed"
    ) as taking:
        assert sorted(int(each.body) for each in taking.wait_messages(20)) == list(range(20))
    with Wire(mixed.namesrv) as wire:
        assert wire.brokers_of("Mixed") == {"broker-0"}
        mixed.stop_brokers()
        # It said goodbye before it ended, and waited for the answer. A nameserver would miss it after two minutes.
        assert not wire.brokers_of("Mixed")
