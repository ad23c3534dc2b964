"""RocketMQ's own administration tool against a nameserver and two brokers: what it prints, as tables."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.blackbox.wire import Wire
from tests.interop.clients import java_command
from tests.interop.cluster import Cluster
from tests.interop.mqadmin_session import MqadminSession
from tests.patience import PATIENCE_SECONDS

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


def test_it_runs_as_a_program_of_its_own(two_brokers: Cluster, tmp_path: Path) -> None:
    """As people start it; the other tests have one JVM for all commands."""
    configuration = tmp_path / "conf" / "logback_tools.xml"
    configuration.parent.mkdir()
    configuration.write_text('<configuration><root level="OFF"/></configuration>\n')
    start = [*java_command(tmp_path), "org.apache.rocketmq.tools.command.MQAdminStartup"]
    start[1:1] = [f"-Drocketmq.home.dir={tmp_path}"]
    done = subprocess.run(
        [*start, "topicList", "-n", two_brokers.namesrv],
        capture_output=True,
        timeout=2 * PATIENCE_SECONDS,
        check=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert "SCHEDULE_TOPIC_XXXX" in done.stdout.decode().split()


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


def test_update_topic_at_one_broker_and_then_changed(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    address = two_brokers.brokers["broker-1"]
    for reads, perm in (("2", "6"), ("3", "4")):
        printed = mqadmin("updateTopic", "-b", address, "-t", "OneBroker", "-r", reads, "-w", "1", "-p", perm)
        assert f"create topic to {address} success." in printed
        two_brokers.wait_read_queues("OneBroker", {"broker-1": int(reads)})
        (queue,) = json_part(mqadmin("topicRoute", "-t", "OneBroker"))["queueDatas"]  # type: ignore[misc]
        assert (queue["brokerName"], queue["readQueueNums"], queue["perm"]) == ("broker-1", int(reads), int(perm))


def test_topic_route_of_an_unknown_topic_names_the_code(mqadmin: Mqadmin) -> None:
    printed = mqadmin("topicRoute", "-t", "Nowhere")
    assert "CODE: 17" in printed
    assert "No topic route info in name server for the topic: Nowhere" in printed


def test_topic_list_has_user_and_system_topics(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    two_brokers.create_topic("Listed")
    topics = set(mqadmin("topicList").split())
    system = {
        "TBW102",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "BenchmarkTest",
        "DefaultCluster",
        "broker-0",
        "broker-1",
    }
    assert {"Listed", "SCHEDULE_TOPIC_XXXX"} | system <= topics


def test_topic_status_shows_offsets_and_the_time_of_the_last_message(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    two_brokers.create_topic("Status", queues=2)
    with Wire(two_brokers.brokers["broker-0"]) as wire:
        for index in range(5):
            assert wire.send("Status", 0, b"%d" % index).code == 0
    rows = table(mqadmin("topicStatus", "-t", "Status"))
    shown = {(row["#Broker Name"], row["#QID"]): (row["#Min Offset"], row["#Max Offset"]) for row in rows}
    assert shown == {
        ("broker-0", "0"): ("0", "5"),
        ("broker-0", "1"): ("0", "0"),
        ("broker-1", "0"): ("0", "0"),
        ("broker-1", "1"): ("0", "0"),
    }
    times = {(row["#Broker Name"], row["#QID"]): row["#Last Updated"] for row in rows}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", times["broker-0", "0"])
    assert times["broker-0", "1"] == ""


def test_topic_cluster_list_names_the_cluster(two_brokers: Cluster, mqadmin: Mqadmin) -> None:
    two_brokers.create_topic("InCluster")
    assert mqadmin("topicClusterList", "-t", "InCluster") == "DefaultCluster"
