"""The data source inside Spark: found without registration, both modes, errors a user can act on."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketpy.client import Message, MessageQueue, blocking
from rocketpy.spark.schema import SPARK_SCHEMA
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.loaded_modules import loaded_after
from tests.store import golden_store

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store-clean")
    golden_store.unpack_store("store-clean", directory)
    [commit_log] = directory.rglob("commitlog")
    return commit_log.parent


@pytest.fixture(scope="module")
def expected() -> list[dict[str, object]]:
    return golden_store.expected("store-clean")["record"]


def test_the_top_level_module_offers_the_source_and_loads_no_reader() -> None:
    """Spark imports it in every session that looks for Python data sources, whether or not this one is wanted."""
    code = (
        "import pyspark_rocketmq as module; from pyspark.sql.datasource import DataSource; "
        "assert issubclass(module.DefaultSource, DataSource) and module.DefaultSource.name() == 'rocketmq'"
    )
    assert loaded_after(code, "trio", "rocketpy.spark.readers", "rocketpy.protocol") == []


def test_the_top_level_module_does_not_raise_where_something_is_missing() -> None:
    """One module that raises there makes every Python data source of the environment unusable."""
    code = (
        "import sys; sys.modules['rocketpy.spark'] = None; import pyspark_rocketmq as module; "
        "assert not hasattr(module, 'DefaultSource')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "the Spark data source rocketmq is not available" in done.stderr


@pytest.mark.parametrize("min_partitions", [1, pytest.param(12, marks=pytest.mark.sample)])
def test_a_store_that_java_wrote_is_read_as_java_reads_it(
    spark: SparkSession, store: Path, expected: list[dict[str, object]], min_partitions: int
) -> None:
    options = {"minPartitions": min_partitions, "includeSystemTopics": True}
    frame = spark.read.format("rocketmq").options(**options).load(str(store))
    assert frame.schema == SPARK_SCHEMA
    assert frame.rdd.getNumPartitions() >= max(min_partitions, 5)
    rows = frame.orderBy("physical_offset").collect()
    assert len(rows) == len(expected)
    for row, record in zip(rows, expected, strict=True):
        assert row.physical_offset == record["offset"]
        assert (row.topic, row.queue_id, row.queue_offset) == (
            record["topic"],
            record["queueId"],
            record["queueOffset"],
        )
        assert (row.message_id, row.sys_flag, row.flag) == (record["msgId"], record["sysFlag"], record["flag"])
        assert row.properties == record["properties"]
        assert row.stored_size == record["size"]
        assert row.body_size == len(row.body) == record.get("plainLength", record["bodyLength"])
        assert "/" + row.born_host == record["bornHost"]
        assert row.broker_name is None


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_query_keeps_the_same_rows_whether_or_not_its_filters_are_pushed_down(
    spark: SparkSession, store: Path, expected: list[dict[str, object]], pushdown: str
) -> None:
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    try:
        times = sorted(int(str(record["storeTimestamp"])) for record in expected)
        start = datetime.fromtimestamp(times[len(times) // 3] / 1000, UTC)
        frame = spark.read.format("rocketmq").load(str(store))
        frame = frame.where((frame.topic == "GoldA") & (frame.store_timestamp >= start) & (frame.queue_offset != 3))
        found = sorted(row.physical_offset for row in frame.collect())
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", before)
    assert found == [
        record["offset"]
        for record in expected
        if record["topic"] == "GoldA"
        and int(str(record["storeTimestamp"])) >= times[len(times) // 3]
        and record["queueOffset"] != 3
    ]
    assert found


def test_two_uses_of_one_dataframe_keep_their_own_conditions(spark: SparkSession, store: Path) -> None:
    frame = spark.read.format("rocketmq").load(str(store))
    both = frame.where("topic = 'GoldTx'").unionByName(frame.where("topic = 'GoldFilter'"))
    wanted = frame.groupBy("topic").count().where("topic in ('GoldTx', 'GoldFilter')").collect()
    assert sorted(map(tuple, both.groupBy("topic").count().collect())) == sorted(map(tuple, wanted))
    assert len(wanted) == 2


def test_a_schema_of_the_users_own_reads_those_columns(spark: SparkSession, store: Path) -> None:
    columns = "_offset bigint, body variant, properties map<string,string>, topic string, _file string"
    frame = spark.read.format("rocketmq").schema(columns).load(str(store))
    whole = spark.read.format("rocketmq").load(str(store))
    assert frame.schema.simpleString() == "struct<" + columns.replace(", ", ",").replace(" ", ":") + ">"
    assert frame.count() == whole.count()
    assert frame.where("body is null").count() > 0
    topics = [sorted(row.topic for row in each.select("topic").collect()) for each in (frame, whole)]
    assert topics[0] == topics[1]


def test_a_store_without_messages_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert spark.read.format("rocketmq").load(str(tmp_path)).count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the option path"),
        ({"nameServer": "127.0.0.1:9876"}, "also needs one of the options topic or subscribe"),
        ({"path": "/nowhere/at/all"}, "expected a store directory or its commitlog directory"),
        ({"nameServer": "127.0.0.1:1", "topic": "T"}, "connect to 127.0.0.1:1 failed"),
    ],
)
def test_errors_reach_the_user(spark: SparkSession, options: dict[str, str], words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        spark.read.format("rocketmq").options(**options).load().count()


def test_sql_reads_a_view_and_says_so_of_a_table(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    """Spark gives catalog tables of Python sources no options: such a table can be made and never be read."""
    topic = rocketmq.topic("Sql", 1)
    with blocking.open_producer(rocketmq.name_server) as producer:
        producer.send(Message(topic, b"x"))
    options = f"USING rocketmq OPTIONS (nameServer '{rocketmq.name_server}', topic '{topic}', bodyAs 'string')"
    spark.sql(f"CREATE TEMPORARY VIEW sql_view {options}")
    spark.sql(f"CREATE TABLE sql_table (topic STRING) {options}")
    try:
        assert [row.body for row in spark.sql("SELECT body FROM sql_view WHERE queue_id = 0").collect()] == ["x"]
        for statement in (f"CREATE TABLE other {options}", "CREATE TABLE other USING rocketmq", "TABLE sql_table"):
            with pytest.raises(PySparkException, match=r"no options, so CREATE TABLE .* use CREATE TEMPORARY VIEW"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE sql_table")
        spark.catalog.dropTempView("sql_view")


@pytest.mark.rocketmq(mappedFileSizeConsumeQueue=6000)
def test_a_thousand_short_queues_are_four_tasks_for_each_core(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    topic = rocketmq.topic("Short", 1000)
    with blocking.open_producer(rocketmq.name_server) as producer:
        for number in range(1000):
            producer.send(Message(topic, b"%d" % number), queue=MessageQueue(topic, "broker-a", number))
    frame = spark.read.format("rocketmq").options(nameServer=rocketmq.name_server, topic=topic).load()
    assert frame.rdd.getNumPartitions() <= 4 * (os.cpu_count() or 1)
    found = sorted((row.queue_id, int(row.body)) for row in frame.select("queue_id", "body").collect())
    assert found == [(number, number) for number in range(1000)]
