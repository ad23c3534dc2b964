"""Members and offsets of a consumer group."""

from __future__ import annotations

import pytest

from rocketpy.broker.metadata import offsets as consumer_offset
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from tests.broker.broker_on_bytes import BrokerOnBytes


def query(group: str = "g", topic: str = "t", queue_id: int = 0) -> RemotingCommand:
    header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
    return make_request(RequestCode.QUERY_CONSUMER_OFFSET, header)


def update(
    offset: int,
    group: str = "g",
    topic: str = "t",
    queue_id: int = 0,
    *,
    is_brought_home: bool | None = None,
    committed_ago: int | None = None,
) -> RemotingCommand:
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        commit_offset=offset,
        is_brought_home=is_brought_home,
        committed_ago=committed_ago,
    )
    return make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def test_a_group_that_is_not_there_has_no_members(broker: BrokerOnBytes) -> None:
    header = GetConsumerListByGroupRequestHeader("g")
    answer = await broker.ask(make_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")


async def test_what_a_slave_brings_home_is_taken_unless_a_reset_has_revoked_it(broker: BrokerOnBytes) -> None:
    broker.tables.offsets.on_change = broker.tables.offset_resets.changed
    for offset, is_brought_home, expected in (
        (7, True, "7"),
        (3, None, "3"),  # a reset, which revokes what is up to 7
        (7, True, "3"),
        (8, True, "8"),
        (3, None, "3"),
        (8, None, "8"),  # the group itself may go on
    ):
        assert (await broker.ask(update(offset, is_brought_home=is_brought_home))).code == ResponseCode.SUCCESS
        assert (await broker.ask(query())).ext_fields == {"offset": expected}


async def test_a_slave_is_answered_that_a_reset_came_after_the_commit_to_it(broker: BrokerOnBytes) -> None:
    """The master has never had that offset, and judges by what came last."""
    broker.tables.offsets.on_change = broker.tables.offset_resets.changed
    for offset in (10, 0):
        await broker.ask(update(offset))
    broker.tables.time.now += 5
    for offset, committed_ago, fields, expected in (
        (11, 5200, {"revoked": "true"}, "0"),
        (3, 2000, None, "3"),
        (12, 2000, None, "12"),
    ):
        answer = await broker.ask(update(offset, is_brought_home=True, committed_ago=committed_ago))
        assert (answer.code, answer.ext_fields or None) == (ResponseCode.SUCCESS, fields)
        assert (await broker.ask(query())).ext_fields == {"offset": expected}
    assert (await broker.ask(update(5, committed_ago=1 << 40))).code == ResponseCode.SUCCESS
    assert (await broker.ask(query())).ext_fields == {"offset": "5"}, "a client's own commit always counts"


async def test_what_a_slave_brings_home_never_lowers_an_offset(broker: BrokerOnBytes) -> None:
    """A client has committed to the master after the slave asked for its offset: that is no reset either."""
    broker.tables.offsets.on_change = broker.tables.offset_resets.changed
    for offset, is_brought_home in ((9, None), (8, True)):
        assert (await broker.ask(update(offset, is_brought_home=is_brought_home))).code == ResponseCode.SUCCESS
    assert (await broker.ask(query())).ext_fields == {"offset": "9"}
    assert broker.tables.offset_resets.table == {}


async def test_a_new_group_on_a_young_queue_begins_at_its_start(broker: BrokerOnBytes) -> None:
    broker.store.max_offsets["t", 0] = 100
    answer = await broker.ask(query())
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})


@pytest.mark.parametrize("from_min", [True, False])
@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_new_group_on_an_old_queue_must_choose_its_first_offset(
    broker: BrokerOnBytes, is_cut: bool, from_min: bool
) -> None:
    """Whatever ``consumeFromMinEnable`` of the group says: it governs nothing, as in RocketMQ 4.9.8."""
    config = SubscriptionGroupConfig("g", consume_from_min_enable=from_min)
    broker.tables.groups.update_subscription_group_config(config)
    if is_cut:
        broker.store.min_offsets["t", 0] = 1
    else:
        broker.store.queues_on_disk.add(("t", 0))
    answer = await broker.ask(query())
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@pytest.mark.parametrize("is_on_disk", [False, True])
async def test_a_cold_queue_is_looked_at_by_a_task(broker: BrokerOnBytes, is_on_disk: bool) -> None:
    """The loop must not wait for the disk because a new group asks where to begin."""
    broker.store.units_are_cold = True
    if is_on_disk:
        broker.store.queues_on_disk.add(("t", 0))
    answer = await broker.ask(query())
    expected = ResponseCode.QUERY_NOT_FOUND if is_on_disk else ResponseCode.SUCCESS
    assert (answer.code, (answer.ext_fields or {}).get("offset")) == (expected, None if is_on_disk else "0")


async def test_an_offset_of_zero_counts_as_committed(broker: BrokerOnBytes) -> None:
    broker.store.min_offsets["t", 0] = 1
    await broker.ask(update(0))
    assert (await broker.ask(query())).ext_fields == {"offset": "0"}


@pytest.mark.parametrize(
    ("request_", "remark"),
    [
        (update(-1), "UpdateConsumerOffsetRequestHeader.commitOffset: expected 0 or more, found -1"),
        (update(1, queue_id=-1), "UpdateConsumerOffsetRequestHeader.queueId: expected 0 or more, found -1"),
        (update(1, group=" "), "UpdateConsumerOffsetRequestHeader.consumerGroup: expected a name, found a blank text"),
        (update(1, topic=""), "UpdateConsumerOffsetRequestHeader.topic: expected a name, found a blank text"),
    ],
)
async def test_what_cannot_be_an_offset_is_refused_and_not_kept(
    broker: BrokerOnBytes, request_: RemotingCommand, remark: str
) -> None:
    answer = await broker.ask(request_)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert broker.tables.offsets.offset_table == {}


async def test_a_negative_queue_has_no_offset(broker: BrokerOnBytes) -> None:
    assert (await broker.ask(query(queue_id=-1))).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_oneway_commit_is_kept_and_not_answered(broker: BrokerOnBytes) -> None:
    request = update(9)
    request.flag |= 2
    assert await broker.ask_all(request) == []
    assert broker.tables.offsets.query_offset("g", "t", 0) == 9


async def test_offsets_beyond_a_bound_are_refused(broker: BrokerOnBytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_offset, "GROUPS_OF_TOPICS_MAX", 1)
    assert (await broker.ask(update(7))).code == ResponseCode.SUCCESS
    answer = await broker.ask(update(7, topic="another"))
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "no offset is kept for consumerGroup g, topic another, queueId 0: there are too many",
    )
    assert (await broker.ask(update(8))).code == ResponseCode.SUCCESS
