"""Bounds of queues and progress of groups."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokersError, ClientError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster

QUEUE = MessageQueue(T, BROKER, 0)


async def test_the_bounds_of_a_queue(real: RealScene) -> None:
    offsets = real.admin.offsets
    assert await offsets.earliest_store_time(MessageQueue(T, BROKER, 1)) == -1
    await real.send(*(Message(T, b"%d" % number) for number in range(3)))
    assert (await offsets.min_offset(QUEUE), await offsets.max_offset(QUEUE)) == (0, 3)
    earliest = await offsets.earliest_store_time(QUEUE)
    assert earliest > 0
    assert await offsets.search_offset(QUEUE, earliest - 1000) == 0
    assert await offsets.search_offset(QUEUE, earliest + 1_000_000) == 2
    assert await offsets.max_offset(QUEUE, address=real.broker) == 3
    with pytest.raises(ClientError, match=r"The broker\[elsewhere\] not exist"):
        await offsets.max_offset(MessageQueue(T, "elsewhere", 0))


async def test_progress_is_set_shown_and_cloned(real: RealScene) -> None:
    offsets = real.admin.offsets
    await real.send(*(Message(T, b"%d" % number) for number in range(3)))
    async with real.online("g"):
        await offsets.commit(real.broker, "g", QUEUE, 2)
        for stats in (await offsets.progress("g"), await offsets.progress("g", T)):
            found = stats.offset_table[QUEUE]
            assert (found.broker_offset, found.consumer_offset) == (3, 2)
            assert found.last_timestamp > 0
        (spans,) = [each for each in await offsets.time_spans(T, "g") if each.message_queue == QUEUE]
        assert 0 < spans.min_time_stamp <= spans.consume_time_stamp <= spans.max_time_stamp
        assert await offsets.clone("g", "clone", T) == [real.broker]
    copied = await offsets.progress_at(real.broker, "clone", T)
    assert copied.offset_table[QUEUE].consumer_offset == 2
    listed = await offsets.progress_of_all(real.broker, timeout_ms=10_000)
    assert "g" in {group for groups in listed.consume_stats_list for group in groups}
    assert listed.total_diff == 1
    assert (await offsets.progress_of_all(real.broker, is_order=True)).total_diff == 0


async def test_what_all_groups_have_passed(real: RealScene) -> None:
    await real.send(*(Message(T, b"%d" % number) for number in range(3)))
    for group, offset in (("slow", 1), ("fast", 3)):
        await real.admin.offsets.commit(real.broker, group, QUEUE, offset)
    found = await real.admin.offsets.corrections(real.broker, T, "fast")
    assert found[0] == 1
    without = await real.admin.offsets.corrections(real.broker, T, "fast", filter_groups=["slow"])
    assert without[0] != 1


async def test_a_group_that_nobody_knows_or_that_has_no_offset(real: RealScene) -> None:
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.offsets.progress("nobody")
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.offsets.clone("nobody", "g", T)
    await real.admin.topics.create("%RETRY%idle", queue_nums=1)
    with pytest.raises(ClientError, match="maybe the consumer not consume any message") as caught:
        await real.admin.offsets.progress("idle")
    assert caught.value.response_code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_offsets_are_cloned_from_a_group_that_is_offline_if_that_is_said(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    code = RequestCode.CLONE_GROUP_OFFSET
    cluster.add_topic("%RETRY%source")
    cluster.broker.answer(code)
    assert await admin.offsets.clone("source", "target", TOPIC, offline=True) == [cluster.broker.address]
    assert [each.ext_fields for each in cluster.broker.asked(code)] == [
        {"srcGroup": "source", "destGroup": "target", "topic": TOPIC, "offline": "true"}
    ]


async def test_the_progress_on_several_brokers_is_one_and_a_missing_part_an_error(two_brokers: FakeCluster) -> None:
    code = RequestCode.GET_CONSUME_STATS
    two_brokers.add_topic("%RETRY%g")
    for broker in two_brokers.brokers:
        table = {MessageQueue(TOPIC, broker.name, 0): OffsetWrapper(10, 4)}
        body = encode_body(ConsumeStats(table, 1.5))
        broker.answer(code, body)
    async with open_admin_client(two_brokers.address) as admin:
        stats = await admin.offsets.progress("g")
        assert ({each.broker_name for each in stats.offset_table}, stats.consume_tps) == ({"broker-a", "broker-b"}, 3.0)
        two_brokers.brokers[1].refuse(code, ResponseCode.SYSTEM_ERROR, "broken")
        with pytest.raises(BrokersError, match=r"1 of 2 failed: .*broken") as caught:
            await admin.offsets.progress("g")
        (result,) = caught.value.results.values()
        assert isinstance(result, ConsumeStats)
