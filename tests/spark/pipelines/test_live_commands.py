"""Commands about a broker that runs: its cluster by the nameserver, its store directory, and an archive of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.client import Message, blocking
from rocketpy.spark.pipelines.archive import archive
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.spark.pipelines.flows import SETTINGS, send_ways
from tests.spark.pipelines.messages import frame, message

BROKER_NAME = "of-the-test"
TOPICS = ("Plain", "Delayed", "Retried", "%RETRY%stubborn", "%DLQ%stubborn")


@attrs.frozen
class Live:
    """A broker that has messages of each way."""

    broker: BrokerInThread
    unique_keys: dict[str, str]

    @property
    def cluster(self) -> list[str]:
        """Return the options that name its cluster, and topics."""
        return ["-n", self.broker.name_server, *(text for topic in TOPICS for text in ("-t", topic))]

    @property
    def store(self) -> str:
        """Return its store directory."""
        return str(Path(self.broker.directory) / "store")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_broker_in_thread(BrokerOptions(settings=SETTINGS | {"brokerName": BROKER_NAME})) as broker:
        yield Live(broker, send_ways(broker))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The archive of all tests of this module, in their order."""
    return str(tmp_path_factory.mktemp("live") / "archive")


def run(*arguments: str, status: int = 0) -> dict[str, Any]:
    """Run ``rocketpy pipeline`` in this process, and return its result."""
    done = CliRunner().invoke(app, ["pipeline", *arguments, "--json"], env={"NAMESRV_ADDR": ""})
    assert done.exit_code == status, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_message_is_traced_through_the_topics_of_a_cluster(spark: SparkSession, live: Live) -> None:
    """The delay topic is not among them: of what it has, a cluster shows the copies."""
    found = run("trace", live.unique_keys["dead"], *live.cluster)
    assert [(each["station"], each["topic"]) for each in found["stations"]] == [
        ("born", "Retried"),
        ("stored", "Retried"),
        ("retry", "%RETRY%stubborn"),
        ("retry", "%RETRY%stubborn"),
        ("dead letter", "%DLQ%stubborn"),
    ]
    assert found["read"] == 7
    nothing = run("trace", live.unique_keys["dead"], "-n", live.broker.name_server, "-t", "Plain", status=1)
    assert (nothing["stations"], nothing["read"]) == ([], 2)


def test_an_archive_of_a_cluster_reads_what_is_new(spark: SparkSession, live: Live, root: str) -> None:
    first = run("archive", root, *live.cluster)
    with blocking.open_producer(live.broker.name_server) as producer:
        producer.send(Message("Plain", b"later"))
    second = run("archive", root, *live.cluster)
    assert [(each["read"], each["written"], each["missing"]) for each in (first, second)] == [(7, 7, 0), (1, 1, 0)]


def test_statistics_of_a_cluster_a_store_and_an_archive_agree(spark: SparkSession, live: Live, root: str) -> None:
    cluster = run("statistics", "queue_skew", "lag", *live.cluster, "--watch", "0.1")
    skew = cluster["tables"]["queue_skew"]
    assert {row["topic"]: row["messages"] for row in skew["rows"]} == {
        "Plain": 3,
        "Delayed": 1,
        "Retried": 1,
        "%RETRY%stubborn": 2,
        "%DLQ%stubborn": 1,
    }
    lags = {(row["topic"], row["consumer_group"]): row for row in cluster["tables"]["lag"]["rows"]}
    readers = lags["Plain", "readers"]
    assert (readers["lag"], readers["consumed_per_second"], readers["broker_name"]) == (2, 0.0, BROKER_NAME)
    assert lags["Retried", "stubborn"]["lag"] == 0
    archived = run("statistics", "queue_skew", "--archive", root)
    assert archived["tables"]["queue_skew"] == skew
    live.broker.restart()  # a clean shutdown writes the offsets
    store = run("statistics", "queue_skew", "lag", "--store", live.store, "-t", "Plain")
    assert [row["messages"] for row in store["tables"]["queue_skew"]["rows"]] == [3]
    assert [(row["consumer_group"], row["lag"]) for row in store["tables"]["lag"]["rows"]] == [("readers", 2)]


def test_a_running_brokers_store_is_audited_against_its_archive(
    spark: SparkSession, live: Live, root: str, tmp_path: Path
) -> None:
    """What the archive has of another broker is left out. Findings are status 1, and are written."""
    archive(frame(spark, [message("Plain", 0, offset, broker_name="other") for offset in range(9)]), root)
    options = ["--archive", root, "--broker-name", BROKER_NAME, "--findings", str(tmp_path / "findings")]
    report = run("audit", live.store, *options, status=1)
    found = [(row["kind"], row["topic"], row["consumer_group"], row["messages"]) for row in report["findings"]]
    behind = {(topic, count) for kind, topic, _, count in found if kind == "archiveBehind"}
    assert ("Tx", 1) in behind
    assert not {topic for topic, _ in behind} & set(TOPICS)
    transactions = [each for each in found if each[2] == "tx-producer"]
    assert {kind for kind, *_ in transactions} <= {"deadLetter", "openTransaction"}
    assert sum(count for *_, count in transactions) == 2, "the broker may give up the second one at any time"
    assert {each for each in found if each[0] != "archiveBehind"} - set(transactions) == {
        ("neverConsumed", "Plain", "readers", 2),
        ("topicWithoutGroup", "Delayed", None, 1),
        ("topicWithoutGroup", "Tx", None, 1),
        ("deadLetter", "%DLQ%stubborn", "stubborn", 1),
    }
    assert (report["read"], report["written"]) == (report["messages"], len(found))
    assert report["skipped"] == {"appended after the audit began": 0}
    written = spark.read.parquet(str(tmp_path / "findings")).collect()
    assert sorted(row.kind for row in written) == sorted(kind for kind, *_ in found)
