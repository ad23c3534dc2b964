"""The programs of ``docs/examples`` run against our broker, and do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
CLIENT_PAGE = (ROOT / "docs" / "client.md").read_text()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions(settings={"defaultTopicQueueNums": 1})) as broker:
        yield broker


def run(name: str, broker: BrokerInThread, *arguments: str) -> str:
    """Run an example as its docstring says; return what it prints."""
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), broker.name_server, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def bodies(broker: BrokerInThread, topic: str) -> list[str]:
    return [message.body.decode() for message in broker.messages(topic)]


def test_simple(broker: BrokerInThread) -> None:
    assert run("simple.py", broker).splitlines()[-1] == "7 more"
    assert sorted(bodies(broker, "Simple")) == [f"message {number}" for number in range(10)]


def test_batch(broker: BrokerInThread) -> None:
    assert run("batch.py", broker) == "100 messages from offset 0 of queue 0\n"
    assert bodies(broker, "Batch") == [f"line {number}" for number in range(100)]


def test_delayed(broker: BrokerInThread) -> None:
    assert run("delayed.py", broker) == "SEND_OK\n"
    broker.advance(11)
    assert bodies(broker, "Delayed") == ["in ten seconds"]


def test_pull(broker: BrokerInThread) -> None:
    run("simple.py", broker)
    assert run("pull.py", broker, "Simple").splitlines()[-1] != "0 messages"
    assert run("pull.py", broker, "Simple") == "0 messages\n"


def test_group(broker: BrokerInThread) -> None:
    assert run("group.py", broker) == "10 messages\n"


def test_administer(broker: BrokerInThread) -> None:
    assert run("administer.py", broker) == "4 messages skipped\n"


def test_plain(broker: BrokerInThread) -> None:
    assert run("plain.py", broker).splitlines() == [f"message {number}" for number in range(3)]


def test_asyncio_program(broker: BrokerInThread) -> None:
    assert run("asyncio_program.py", broker) == "5 messages\n"
    assert len(bodies(broker, "Asyncio")) == 5


def test_each_example_has_a_test_and_is_on_the_page_of_the_client() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert f"test_{path.stem}" in globals(), path
        assert f"(examples/{path.name})" in CLIENT_PAGE, path
        assert f"python {path.name} 127.0.0.1:9876" in path.read_text(), path
