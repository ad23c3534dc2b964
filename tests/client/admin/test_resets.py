"""Resets of offsets: through members that are online, and at the broker."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.resets import TO_END, RollbackStats
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, BrokersError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.offset import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS

QUEUE = MessageQueue(T, BROKER, 0)
EMPTY_QUEUE = MessageQueue(T, BROKER, 1)


async def fill(real: RealScene) -> int:
    """Store five messages, of which "g" has consumed four; return when the first was stored."""
    await real.send(*(Message(T, b"%d" % number) for number in range(5)))
    await real.admin.offsets.commit(real.broker, "g", QUEUE, 4)
    await real.admin.offsets.commit(real.broker, "g", EMPTY_QUEUE, 0)
    return await real.admin.offsets.earliest_store_time(QUEUE)


async def progress(real: RealScene, group: str = "g") -> int:
    return (await real.admin.offsets.progress_at(real.broker, group, T)).offset_table[QUEUE].consumer_offset


async def test_members_that_are_online_are_told(real: RealScene) -> None:
    told: list[dict[MessageQueue, int]] = []
    called = trio.Event()

    async def reset(connection: Connection, request: RemotingCommand) -> None:
        told.append(decode_body(request.body, ResetOffsetBody).offset_table)
        called.set()

    begin = await fill(real)
    async with real.online("g", handlers={RequestCode.RESET_CONSUMER_CLIENT_OFFSET: reset}):
        assert await real.admin.resets.reset(T, "g", begin - 1000) == {QUEUE: 0, EMPTY_QUEUE: 0}
        with trio.fail_after(PATIENCE_SECONDS):
            await called.wait()
        assert told == [{QUEUE: 0, EMPTY_QUEUE: 0}]
        assert await progress(real) == 4, "the members commit, not the broker"
        assert await real.admin.resets.reset_online(T, "g", TO_END) == {QUEUE: 5, EMPTY_QUEUE: 0}
        only_back = await real.admin.resets.reset_online(T, "g", TO_END, is_force=False)
        assert only_back[QUEUE] == 4


async def test_a_group_that_is_offline_is_reset_at_the_broker(real: RealScene) -> None:
    begin = await fill(real)
    with pytest.raises(BrokerError, match="Consumer not online, so can not reset offset"):
        await real.admin.resets.reset_online(T, "g", begin)
    assert await real.admin.resets.reset(T, "g", begin - 1000) == {QUEUE: 0, EMPTY_QUEUE: 0}
    assert await progress(real) == 0
    assert await real.admin.resets.reset(T, "g", TO_END) == {QUEUE: 5, EMPTY_QUEUE: 0}
    assert await progress(real) == 5


async def test_without_force_offsets_only_go_back(real: RealScene) -> None:
    begin = await fill(real)
    ahead = await real.admin.resets.reset_offline(T, "g", TO_END, force=False)
    assert ahead[0] == RollbackStats(BROKER, 0, 5, 4, 5, 4)
    assert await progress(real) == 4
    back = await real.admin.resets.reset_offline(T, "g", begin - 1000, force=False)
    assert back[0] == RollbackStats(BROKER, 0, 5, 4, 0, 0)
    assert await progress(real) == 0


async def test_a_group_that_has_not_begun_gets_an_offset_in_every_queue(real: RealScene) -> None:
    await fill(real)
    stats = await real.admin.resets.reset_offline(T, "new", TO_END)
    assert stats == [RollbackStats(BROKER, 0, 5, 0, 5, 5), RollbackStats(BROKER, 1, 0, 0, 0, 0)]
    assert await progress(real, "new") == 5


async def test_members_in_cpp_have_a_list_of_their_own(cluster: FakeCluster, admin: AdminClient) -> None:
    body = encode_body(ResetOffsetBodyForC([MessageQueueForC(TOPIC, "broker-a", 1, 7)]))
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    cluster.broker.answer(code, body)
    found = await admin.resets.reset_online(TOPIC, "g", 1, for_c=True)
    assert found == {MessageQueue(TOPIC, "broker-a", 1): 7}
    assert cluster.broker.asked(code)[0].language is LanguageCode.CPP


async def test_only_the_brokers_without_a_member_are_reset_by_hand(two_brokers: FakeCluster) -> None:
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    online, offline = two_brokers.brokers
    of_online, of_offline = (MessageQueue(TOPIC, broker.name, 0) for broker in (online, offline))
    table = encode_body(ResetOffsetBody({of_online: 3}))
    stats = encode_body(ConsumeStats({of_offline: OffsetWrapper(9, 8)}))
    online.answer(code, table)
    offline.answer(code)
    offline.refuse(code, ResponseCode.CONSUMER_NOT_ONLINE, "Consumer not online")
    offline.answer(RequestCode.GET_CONSUME_STATS, stats)
    async with open_admin_client(two_brokers.address) as admin:
        assert await admin.resets.reset(TOPIC, "g", TO_END) == {of_online: 3, of_offline: 0}
        assert (online.progress, offline.progress) == ({}, {("g", TOPIC, 0): 0})
        offline.refuse(code, ResponseCode.SYSTEM_ERROR, "broken")
        with pytest.raises(BrokersError, match="broken") as caught:
            await admin.resets.reset(TOPIC, "g", TO_END)
        assert caught.value.results == {online.address: {of_online: 3}}
