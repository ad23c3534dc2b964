"""RocketMQ's own administration tool against a nameserver and two brokers: what it prints, as tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.interop.cluster import Cluster
from tests.interop.mqadmin_session import MqadminSession

pytestmark = pytest.mark.java

Mqadmin = Callable[..., str]


@pytest.fixture(scope="module")
def session(two_brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqadminSession]:
    """One JVM for the commands of these tests."""
    with MqadminSession(two_brokers, tmp_path_factory.mktemp("mqadmin")) as session:
        yield session


@pytest.fixture
def mqadmin(session: MqadminSession) -> Mqadmin:
    """Return a function that runs ``mqadmin COMMAND ARGUMENTS`` and returns what it printed."""

    def run(command: str, *arguments: str) -> str:
        printed = session.run([command, "-n", "{namesrv}", *arguments])
        assert not printed.late, printed
        assert not printed.exit, printed
        return printed.text.strip()

    return run


def table(printed: str) -> list[dict[str, str]]:
    """Return the rows of a table whose first line has the names, each after a ``#``, in columns of fixed width."""
    lines = printed.splitlines()
    starts = [found.start() for found in re.finditer("#", lines[0])]
    ends = [*starts[1:], None]
    names = [lines[0][start:end].strip() for start, end in zip(starts, ends, strict=True)]
    rows = [line for line in lines[1:] if line.strip()]
    return [
        dict(zip(names, (row[start:end].strip() for start, end in zip(starts, ends, strict=True)), strict=True))
        for row in rows
    ]


def json_part(printed: str) -> dict[str, object]:
    """Return the JSON object in the output, whose integer keys Java writes without quotes."""
    text = printed[printed.index("{") : printed.rindex("}") + 1]
    found = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))
    assert isinstance(found, dict)
    return found


def test_cluster_list_shows_both_brokers(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    rows = table(mqadmin("clusterList"))
    shown = [(row["#Cluster Name"], row["#Broker Name"], row["#BID"], row["#Addr"]) for row in rows]
    assert shown == [("DefaultCluster", name, "0", address) for name, address in sorted(two_brokers.brokers.items())]
    # What the broker says of itself in its runtime figures.
    assert all(re.fullmatch(r"V\d+_\d+_\d+\w*", row["#Version"]) for row in rows)


def test_update_topic_in_the_cluster_creates_it_at_each_broker(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    printed = mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "AdminTopic", "-r", "6", "-w", "5")
    for address in two_brokers.brokers.values():
        assert f"create topic to {address} success." in printed
    two_brokers.wait_route("AdminTopic")
    route = json_part(mqadmin("topicRoute", "-t", "AdminTopic"))
    brokers = route["brokerDatas"]
    assert isinstance(brokers, list)
    assert sorted(brokers, key=lambda each: str(each["brokerName"])) == [
        {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": "DefaultCluster"}
        for name, address in sorted(two_brokers.brokers.items())
    ]
    queues = route["queueDatas"]
    assert isinstance(queues, list)
    assert sorted(
        (each["brokerName"], each["readQueueNums"], each["writeQueueNums"], each["perm"]) for each in queues
    ) == [
        ("broker-0", 6, 5, 6),
        ("broker-1", 6, 5, 6),
    ]
