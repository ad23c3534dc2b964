"""Producers that have sent nothing: brokers know them, and ask them about transactions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client
from rocketpy.client.results import LocalTransactionState
from rocketpy.protocol.message import MessageExt
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.fake_cluster import FakeBroker, FakeCluster
from tests.patience import PATIENCE_SECONDS, until, until_blocked

DIES = """
import os, sys, trio
from rocketpy.client import LocalTransactionState, Message, open_client

async def never(message):
    return LocalTransactionState.UNKNOW

async def main():
    async with open_client(sys.argv[1]) as client, client.transaction_producer("g", check=never) as producer:
        async with producer.transaction(Message(sys.argv[2], b"paid")) as transaction:
            os.write(1, transaction.transaction_id.encode())
            os._exit(1)

trio.run(main)
"""
"""A process that ends between its local commit and the verdict."""


async def never_asked(message: MessageExt) -> LocalTransactionState:
    raise AssertionError(message)


def knows(broker: FakeBroker, group: str) -> bool:
    return any(group == each.group_name for beat in broker.heartbeats for each in beat.producer_data_set)


@pytest.fixture(scope="module", params=["true", "false"], ids=["topics are created", "topics are not created"])
def checking(request: pytest.FixtureRequest) -> Iterator[tuple[BrokerInThread, list[str]]]:
    """A broker that asks at once, and the topics that a producer has to name for it."""
    checks = {"transactionCheckInterval": 50, "transactionTimeOut": 1, "transactionCheckMax": 10_000}
    with open_broker_in_thread(BrokerOptions(settings=checks | {"autoCreateTopicEnable": request.param})) as broker:
        yield broker, [] if request.param == "true" else ["Payments"]


async def test_a_fresh_process_is_asked_about_the_transaction_of_one_that_died(
    checking: tuple[BrokerInThread, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """It has sent nothing: the broker knows it by heartbeats alone."""
    broker, topics = checking
    asked: list[str] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        asked.append(message.msg_id)
        return LocalTransactionState.COMMIT_MESSAGE

    async with open_client(broker.name_server) as client:
        await client.admin().topics.create_like("DefaultCluster", "Payments", queue_nums=1)
        died = await trio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, "-c", DIES, broker.name_server, "Payments"], capture_output=True, check=False
            )
        )
        assert died.returncode == 1, died.stderr
        caplog.set_level("INFO", logger="rocketpy.client")
        async with client.transaction_producer("g", check=check, topics=topics):
            with trio.fail_after(PATIENCE_SECONDS):
                while not await trio.to_thread.run_sync(broker.messages, "Payments"):
                    await trio.sleep(0.01)
    assert asked[0] == died.stdout.decode()
    line = f"has asked group g about transaction {asked[0]} to topic Payments: COMMIT_MESSAGE"
    assert line in caplog.text


async def test_brokers_know_each_producer_before_it_sends(two_brokers: FakeCluster) -> None:
    """Those that create topics, and those of the topics that it names."""
    first, second = two_brokers.brokers
    two_brokers.name_server.routes["TBW102"] = two_brokers.route(8, brokers=[first])
    two_brokers.name_server.routes["Only"] = two_brokers.route(1, brokers=[second])
    async with open_client(two_brokers.address) as client:
        async with client.producer("plain"):
            await until(lambda: knows(first, "plain"))
        async with client.transaction_producer("named", check=never_asked, topics=["Only"]):
            await until(lambda: knows(first, "named") and knows(second, "named"))
    assert not knows(second, "plain")


async def test_a_producer_that_no_broker_can_ask_says_so_until_one_can(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    caplog.set_level("INFO", logger="rocketpy.client")
    del cluster.name_server.routes["TBW102"]
    async with (
        open_client(cluster.address) as client,
        client.producer("plain"),
        client.transaction_producer("g", check=never_asked, topics=["Later"]),
    ):
        await until_blocked(lambda: caplog.messages)
        cluster.add_topic("Later")
        mock_clock.jump(30)
        await until_blocked(lambda: knows(cluster.broker, "g"))
    assert caplog.messages == [
        "no broker can ask the producer group g about transactions before it sends: no route of TBW102 or Later",
        "brokers can ask the producer group g about transactions now",
    ]


async def test_without_a_nameserver_the_reason_is_its_silence(caplog: pytest.LogCaptureFixture) -> None:
    async with open_client("127.0.0.1:1") as client, client.transaction_producer("g", check=never_asked):
        await until(lambda: caplog.messages)
    assert "about transactions before it sends: no nameserver answers: " in caplog.text
