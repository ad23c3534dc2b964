"""Figures, settings and statistics of brokers, and the units of their queues."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.brokers import read_settings, settings_body
from rocketpy.errors import BrokerError
from rocketpy.protocol.bodies.route import BrokerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message
from tests.client.admin.conftest import BROKER, CLUSTER, RealScene, T
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS


async def test_the_cluster_and_the_figures_of_a_broker(real: RealScene) -> None:
    info = await real.admin.brokers.clusters()
    assert info.broker_addr_table == {BROKER: BrokerData(CLUSTER, BROKER, {0: real.broker})}
    figures = await real.admin.brokers.runtime_info(real.broker)
    assert figures["brokerVersionDesc"] == "V4_9_8"
    assert int(figures["bootTimestamp"]) > 0


async def test_settings_are_shown_and_changed(real: RealScene) -> None:
    brokers = real.admin.brokers
    assert (await brokers.config(real.broker))["brokerName"] == BROKER
    await brokers.update_config(real.broker, {"traceOn": "false", "maxErrorRateOfBloomFilter": "10"})
    shown = await brokers.config(real.broker)
    assert (shown["traceOn"], shown["maxErrorRateOfBloomFilter"]) == ("false", "10")
    with pytest.raises(BrokerError, match="CODE: 16") as caught:
        await brokers.update_config(real.broker, {"rocketmqHome": "elsewhere"})
    assert caught.value.response_code == ResponseCode.NO_PERMISSION


async def test_a_statistic_of_a_topic(real: RealScene) -> None:
    await real.send(Message(T, b"x"))
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                found = await real.admin.brokers.stats(real.broker, "TOPIC_PUT_NUMS", T)
            except BrokerError:
                await trio.sleep(0.05)
            else:
                break
    assert found.stats_minute.sum >= 0
    with pytest.raises(BrokerError, match="The stats <TOPIC_PUT_NUMS> <Gone> not exist"):
        await real.admin.brokers.stats(real.broker, "TOPIC_PUT_NUMS", "Gone")


async def test_the_units_of_a_queue(real: RealScene) -> None:
    await real.send(Message(T, b"0"), Message(T, b"1", {"TAGS": "a"}), Message(T, b"2"))
    found = await real.admin.brokers.consume_queue(real.broker, T, 0, index=1, count=5)
    assert (found.min_queue_index, found.max_queue_index) == (0, 3)
    assert found.queue_data is not None
    assert len(found.queue_data) == 2
    assert found.queue_data[0].tags_code == ord("a")
    async with real.online("g", tags=("a",)):
        judged = await real.admin.brokers.consume_queue(real.broker, T, 0, index=0, count=2, group="g")
        assert judged.subscription_data is not None
        assert judged.subscription_data.sub_string == "a"
        assert judged.queue_data is not None
        assert len(judged.queue_data) == 2
    with pytest.raises(BrokerError, match="CODE: 1 "):
        await real.admin.brokers.consume_queue(real.broker, T, 9, index=0, count=1)


async def test_settings_with_strange_characters_survive(cluster: FakeCluster, admin: AdminClient) -> None:
    settings = {"path": "C:\\data", "text": " größer = 1\nzwei", "empty": ""}
    assert read_settings(settings_body(settings)) == settings
    assert read_settings(None) == {}
    code = RequestCode.UPDATE_BROKER_CONFIG
    cluster.broker.answer(code)
    await admin.brokers.update_config(cluster.broker.address, {"a": "1", "b": "2"})
    assert cluster.broker.asked(code)[0].body == b"a=1\nb=2\n"
