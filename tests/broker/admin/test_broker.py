"""The broker about itself."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.broker.test_app import running, settings_at
from tests.remoting.patient_client import open_patient_client

GOLDEN = Path(__file__).parents[2] / "golden"


async def test_figures_are_all_text_and_the_stores_own_are_among_them(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
    table = decode_body(answer.body, KVTable).table
    assert table["brokerVersionDesc"] == "V4_9_8"
    assert table["brokerVersion"] == "409"
    assert table["commitLogMaxOffset"] == "7"
    assert table["sendThreadPoolQueueSize"] == "0"
    assert all(isinstance(value, str) for value in table.values())


async def test_every_figure_is_there_that_java_prints(tmp_path: Path) -> None:
    """But for those that a path or a delay level is part of."""
    with gzip.open(GOLDEN / "mqadmin.jsonl.gz", "rt") as lines:
        printed = [row["stdout"] for row in map(json.loads, lines) if row["args"][:2] == ["brokerStatus", "-b"]]
    keys = {line.split(":")[0].strip() for text in printed for line in text.splitlines() if ":" in line}
    keys = {key for key in keys if not key.startswith(("commitLogDiskRatio_", "scheduleMessageOffset_"))}
    assert len(keys) > 40
    async with running(settings_at(tmp_path / "store")) as at, open_patient_client() as client:
        answer = await client.request(at.address, make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert keys <= decode_body(answer.body, KVTable).table.keys()


async def test_capacities_are_what_the_settings_say(broker_with: Callable[..., BrokerOnBytes]) -> None:
    broker = broker_with(send_thread_pool_queue_capacity=7, end_transaction_pool_queue_capacity=9)
    answer = await broker.ask(make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
    table = decode_body(answer.body, KVTable).table
    assert (table["sendThreadPoolQueueCapacity"], table["EndTransactionThreadPoolQueueCapacity"]) == ("7", "9")
    assert table["pullThreadPoolQueueCapacity"] == "100000"
