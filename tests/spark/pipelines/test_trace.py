"""The ways of messages through our own broker, found by each kind of id, in order and in words."""

from __future__ import annotations

import re
from datetime import timedelta

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.spark.pipelines.audit.progress import group_offsets
from rocketpy.spark.pipelines.audit.store_files import list_store
from rocketpy.spark.pipelines.sources import whole_log
from rocketpy.spark.pipelines.summary import Summary
from rocketpy.spark.pipelines.trace import Station, TraceReport, trace, trace_report
from tests.spark.pipelines.flows import Flows, make_store
from tests.spark.pipelines.message_rows import message, messages_of


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Flows:
    return make_store(tmp_path_factory.mktemp("flows"))


@pytest.fixture(scope="module")
def log(spark: SparkSession, flows: Flows) -> DataFrame:
    return whole_log(spark, str(flows.store)).coalesce(1).cache()


@pytest.fixture(scope="module")
def traced(log: DataFrame, flows: Flows) -> dict[str, list[Station]]:
    """The stations of each message of the flows, found by its unique key."""
    return {name: stations(log, key) for name, key in flows.unique_keys.items()}


def stations(log: DataFrame, wanted: str, offsets: DataFrame | None = None) -> list[Station]:
    return list(trace_report(trace(log, wanted, offsets=offsets), wanted).stations)


def names(log: DataFrame, wanted: str) -> list[str]:
    return [each.station for each in stations(log, wanted)]


def test_each_way_has_its_stations(traced: dict[str, list[Station]]) -> None:
    ways = {name: [each.station for each in found] for name, found in traced.items()}
    given_up, still_open = ways.pop("given up"), ways.pop("open")
    assert ways == {
        "plain": ["born", "stored"],
        "waiting": ["born", "stored"],
        "delivered": ["born", "delayed", "delivered"],
        "delayed": ["born", "delayed"],
        "dead": ["born", "stored", "sent back", "retry", "sent back", "retry", "dead letter"],
        "committed": ["born", "prepared", "committed", "ended"],
        "rolled back": ["born", "prepared", "rolled back"],
    }
    assert (given_up[:2], given_up[-2:]) == (["born", "prepared"], ["given up", "rolled back"])
    assert still_open[:2] == ["born", "prepared"]
    assert set(still_open) == {"born", "prepared"}


def test_the_sentences_say_who_where_and_until_when(traced: dict[str, list[Station]]) -> None:
    delayed = traced["delivered"]
    due = (delayed[1].at + timedelta(seconds=10)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] if delayed[1].at else ""
    assert delayed[1].sentence == f"delayed by level 3 until {due}, then to queue 0 of Delayed"
    assert delayed[2].sentence == "delivered after its delay: queue 0 of Delayed at offset 0"
    dead = [each.sentence for each in traced["dead"]]
    assert dead[0].startswith("born at producer 127.0.0.1:")
    assert dead[1] == "stored in queue 0 of Retried at offset 0"
    assert dead[2].startswith("sent back by group stubborn, time 1; delayed by level 3 until ")
    assert dead[2].endswith(", then to queue 0 of %RETRY%stubborn")
    assert dead[3] == "delivered again to its group: queue 0 of %RETRY%stubborn at offset 0"
    assert dead[4].startswith("sent back by group stubborn, time 2; delayed by level 4 until ")
    assert dead[6] == "dead letter of group stubborn after 3 times: queue 0 of %DLQ%stubborn at offset 0"
    committed = [each.sentence for each in traced["committed"]][1:]
    assert committed == [
        "prepared as a half message for queue 0 of Tx",
        "committed: queue 0 of Tx at offset 0",
        "the transaction is marked as ended",
    ]
    assert traced["rolled back"][-1].sentence == "rolled back"


def test_times_do_not_go_back(traced: dict[str, list[Station]]) -> None:
    for found in traced.values():
        times = [each.at for each in found if each.at is not None]
        assert times == sorted(times)


@pytest.mark.parametrize("name", ["dead", "committed", "delivered"])
def test_an_id_of_any_record_finds_all(log: DataFrame, traced: dict[str, list[Station]], name: str) -> None:
    whole = traced[name]
    last = [each for each in whole if each.station in ("dead letter", "committed", "delivered")][-1]
    assert stations(log, last.message_id.lower()) == whole


def test_a_key_finds_its_messages_and_a_topic_narrows_them(log: DataFrame, flows: Flows) -> None:
    assert [each.unique_key for each in stations(log, "customer-7")] == [flows.unique_keys["plain"]] * 2
    assert trace(log, "customer-7", topic="Plain").count() == 2
    assert trace(log, "customer-7", topic="Other").count() == 0
    assert trace_report(trace(log, "nothing"), "nothing").lines() == ["trace of nothing: nothing found"]


def test_groups_that_have_acknowledged_it_come_last(spark: SparkSession, log: DataFrame, flows: Flows) -> None:
    table = list_store(str(flows.store)).tables.offsets
    assert table is not None
    offsets = group_offsets(spark, table)
    plain = stations(log, flows.unique_keys["plain"], offsets)[-1]
    waiting = stations(log, flows.unique_keys["waiting"], offsets)[-1]
    assert (plain.at, plain.sentence) == (None, "acknowledged by group readers, whose offset is 1")
    assert waiting.sentence == "not acknowledged by group readers, whose offset is 1"


def test_without_unique_keys_copies_lead_to_originals(spark: SparkSession) -> None:
    half, op = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    log = messages_of(
        spark,
        [
            message(1, topic=half, properties={"REAL_TOPIC": "T", "REAL_QID": "0"}),
            message(2, sys_flag=0x8, prepared_transaction_offset=100),
            message(3, topic=op, tags="d", body=b"1"),
            message(4, topic="SCHEDULE_TOPIC_XXXX", properties={"REAL_TOPIC": "T", "DELAY": "1"}),
            message(5, prepared_transaction_offset=~400, properties={"DELAY": "1"}),
            message(6),
        ],
    )
    for number in (1, 2):
        assert names(log, f"{number:032X}") == ["born", "prepared", "committed", "ended"]
    for number in (4, 5):
        assert names(log, f"{number:032X}") == ["born", "delayed", "delivered"]
    assert names(log, f"{6:032X}") == ["born", "stored"]


def test_the_command_prints_the_way(spark: SparkSession, flows: Flows) -> None:
    key = flows.unique_keys["dead"]
    done = CliRunner().invoke(app, ["pipeline", "trace", key, "--store", str(flows.store)])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == f"trace of {key}: 1 messages in 6 records"
    assert "dead letter of group stubborn" in lines[7]
    nothing = CliRunner().invoke(app, ["pipeline", "trace", "nothing", "--store", str(flows.store)])
    found, summary = nothing.stdout.splitlines()
    assert (nothing.exit_code, found) == (1, "trace of nothing: nothing found")
    assert re.fullmatch(r"trace: [1-9]\d* read, 0 written, 0 skipped in \d+\.\d s \(\d+/s\)", summary)


def test_a_report_is_json() -> None:
    report = TraceReport(wanted="x", stations=())
    assert report.as_fields() == {"pipeline": "trace", "wanted": "x", "stations": []}
    assert attrs.evolve(report, summary=Summary(pipeline="trace", read=7)).as_fields() == {
        "pipeline": "trace",
        "read": 7,
        "written": 0,
        "skipped": {},
        "seconds": 0.0,
        "wanted": "x",
        "stations": [],
    }
