"""The programs and commands of ``docs/spark.md``, and the one of ``README.md``, run in the order of the page.

They share one session, one broker, its store, and a copy of that for the store of a dead broker. Paths and the
nameserver of the pages stand for those here, and what a page says in words (``frame``, ``stream`` ...) is made before.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.client import Message, blocking
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.pages.command_lines import Block, blocks_of, commands_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = ("orders", "hello", "orders_again", "%RETRY%billing", "%DLQ%billing")
UNIQUE_KEY = "C000020267DC73DCA6D77525636C0002"
"""The message that the page traces; ours has another id."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions(settings={"brokerName": "broker-a"})) as opened:
        for topic in TOPICS:
            opened.topic(topic, queues=2)
        with blocking.open_producer(opened.name_server) as producer:
            for number in range(20):
                properties = {"TAGS": "paid" if number % 2 else "created", "KEYS": f"order-{number}"}
                producer.send(Message("orders", b"%d" % number, properties))
            producer.send(Message("hello", b"hello from Python", {"TAGS": "greeting"}))
        yield opened


@pytest.fixture
def here(broker: BrokerInThread, tmp_path: Path) -> dict[str, str]:
    """What stands for the texts of the pages."""
    broker.copy_store(tmp_path / "dead" / "store")
    (message, *_) = broker.messages("orders")
    return {
        "127.0.0.1:9876": broker.name_server,
        "/var/lib/rocketmq/store": broker.store,
        "/mnt/dead/store": str(tmp_path / "dead" / "store"),
        "/archive": str(tmp_path / "archive"),
        "/var/replay": str(tmp_path / "replay"),
        "/data/": f"{tmp_path}/data/",
        "/tmp/": f"{tmp_path}/written/",
        "--watch 30": "--watch 0.1",
        UNIQUE_KEY: message.msg_id,
    }


def test_the_program_of_readme_runs(
    spark: SparkSession, here: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = [each for each in blocks_of("README.md") if each.first.startswith("from rocketpy.spark.session")]
    exec(_with(program.text, here), {})
    shown = [cell.strip() for line in capsys.readouterr().out.splitlines() for cell in line.split("|")]
    assert {"queue_id", "hello from Python", "greeting"} <= set(shown)


def test_the_programs_and_commands_of_the_page_run_in_their_order(
    spark: SparkSession, broker: BrokerInThread, here: dict[str, str], tmp_path: Path
) -> None:
    names: dict[str, Any] = {
        "spark": spark,
        "frame": spark.createDataFrame([(b"from a frame",)], "body binary"),
        "stored": spark.read.format("rocketmq").load(str(tmp_path / "dead" / "store")).where("topic = 'orders'"),
        "stream": _stream(spark, broker),
        "other": broker.name_server,
        "directory": str(tmp_path / "checkpoint"),
    }
    played = 0
    for block in blocks_of("docs/spark.md"):
        if block.language == "python":
            _add_what_is_said_in_words(names, block, broker)
            with redirect_stdout(StringIO()) as printed:
                exec(compile(_with(block.text, here), f"docs/spark.md: {block.first}", "exec"), names)
            for query in spark.streams.active:
                query.processAllAvailable()
        elif block.language == "sql":
            for statement in filter(str.strip, _with(block.text, here).split(";")):
                spark.sql(statement).collect()
        elif block.first.startswith("+--"):
            assert _lines(printed.getvalue()) == _lines(block.text), "what the program before it prints"
        elif block.first.startswith("rocketpy pipeline"):
            for command in commands_of(block):
                _, *arguments = shlex.split(_with(command, here))
                ended = CliRunner().invoke(app, arguments)
                assert ended.exit_code == 0, f"{command}\n{ended.output}{ended.exception!r}"
                played += 1
    for query in spark.streams.active:
        query.stop()
    names["rocketmq"].stop()
    assert played > 8
    bodies = [message.body for message in broker.messages("orders")]
    assert b"from a frame" in bodies
    assert {message.tags for message in broker.messages("orders_again")} == {"paid"}
    assert names["read_archive"](spark, str(tmp_path / "archive")).where("topic = 'orders'").count() >= 20
    assert names["audit"].report.is_clean


def _add_what_is_said_in_words(names: dict[str, Any], block: Block, broker: BrokerInThread) -> None:
    if "offsets, earlier" in block.text:
        from rocketpy.spark.pipelines.live_offsets import live_group_offsets

        names["offsets"] = names["earlier"] = live_group_offsets(names["spark"], broker.name_server, ["orders"])


def _stream(spark: SparkSession, broker: BrokerInThread) -> Any:
    options = {"nameServer": broker.name_server, "topic": "hello", "startingOffsets": "earliest"}
    return spark.readStream.format("rocketmq").options(**options).load().select("body")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _with(text: str, here: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, here)), lambda match: here[match.group()], text)
