"""Offsets of groups beside each other, and copies of them."""

from __future__ import annotations

import pytest

from rocketpy.broker.admin.group_offsets import NO_CORRECTION
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.offset import QueryCorrectionOffsetBody
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from tests.broker.broker_on_bytes import BrokerOnBytes


def commit(broker: BrokerOnBytes, group: str, topic: str, *offsets: int) -> None:
    for queue_id, offset in enumerate(offsets):
        broker.tables.offsets.commit_offset("p", group, topic, queue_id, offset)


async def corrections(broker: BrokerOnBytes, compare_group: str, filter_groups: str | None = None) -> dict[int, int]:
    header = QueryCorrectionOffsetHeader(filter_groups=filter_groups, compare_group=compare_group, topic="T")
    answer = await broker.ask(make_request(RequestCode.QUERY_CORRECTION_OFFSET, header))
    assert answer.code == ResponseCode.SUCCESS
    return decode_body(answer.body, QueryCorrectionOffsetBody).correction_offsets


@pytest.mark.parametrize(
    ("offsets", "compared", "left_out", "expected"),
    [
        ({"slow": [3, 9], "fast": [8, 5]}, "fast", None, {0: 3, 1: 5}),
        ({"mine": [2, 7], "others": [5, 5]}, "mine", "mine", {0: NO_CORRECTION, 1: 5}),
        ({"mine": [2]}, "mine", "mine", {0: NO_CORRECTION}),
    ],
    ids=["of the slowest group", "none for a group that lags the others", "none without other groups"],
)
async def test_the_correction_is_where_the_slowest_group_is(
    broker: BrokerOnBytes, offsets: dict[str, list[int]], compared: str, left_out: str | None, expected: dict[int, int]
) -> None:
    for group, of_group in offsets.items():
        commit(broker, group, "T", *of_group)
    commit(broker, "other", "Elsewhere", 1, 1)
    assert await corrections(broker, compared, left_out) == expected


async def test_groups_are_left_out_and_keep_their_offsets(broker: BrokerOnBytes) -> None:
    """RocketMQ deletes them, of every topic."""
    commit(broker, "slow", "T", 3, 9)
    commit(broker, "slow", "Elsewhere", 3)
    commit(broker, "fast", "T", 8, 5)
    before = dict(broker.tables.offsets.offset_table)
    assert await corrections(broker, "slow", "slow,nobody") == {0: NO_CORRECTION, 1: 5}
    assert broker.tables.offsets.offset_table == before


async def test_offsets_of_messages_that_are_gone_do_not_count(broker: BrokerOnBytes) -> None:
    commit(broker, "forgotten", "T", 3)
    commit(broker, "living", "T", 8)
    broker.store.min_offsets["T", 0] = 4
    assert await corrections(broker, "nobody") == {0: 8}


def clone(topic: str | None = "T", *, source: str = "a", target: str = "b", offline: bool = False) -> RemotingCommand:
    header = CloneGroupOffsetRequestHeader(src_group=source, dest_group=target, topic=topic, offline=offline)
    return make_request(RequestCode.CLONE_GROUP_OFFSET, header)


def with_topics(broker: BrokerOnBytes) -> None:
    for topic in ("T", "U"):
        broker.tables.topics.update_topic_config(TopicConfig(topic, 1, 1))
        commit(broker, "a", topic, 4, 6)
    commit(broker, "a", "unknown", 1)
    commit(broker, "b", "T", 1, 1, 1)


def offsets_of(broker: BrokerOnBytes, group: str) -> dict[str, object]:
    offsets = broker.tables.offsets
    return {topic: offsets.offsets_of(group, topic) for topic in offsets.which_topic_by_consumer(group)}


async def test_a_clone_replaces_existing_offsets(broker: BrokerOnBytes) -> None:
    with_topics(broker)
    answer = await broker.ask(clone())
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.SUCCESS, None, None)
    assert offsets_of(broker, "b") == {"T": {0: 4, 1: 6}}
    commit(broker, "a", "T", 9)
    assert offsets_of(broker, "b") == {"T": {0: 4, 1: 6}}, "a copy"


@pytest.mark.parametrize("topic", [None, "", " "])
async def test_without_a_topic_every_topic_is_cloned(broker: BrokerOnBytes, topic: str | None) -> None:
    """RocketMQ looks for the topic without a name, and copies nothing."""
    with_topics(broker)
    assert (await broker.ask(clone(topic))).code == ResponseCode.SUCCESS
    assert offsets_of(broker, "b") == {"T": {0: 4, 1: 6}, "U": {0: 4, 1: 6}}


async def test_a_topic_that_the_group_has_left_is_cloned_only_if_the_group_is_said_to_be_offline(
    broker: BrokerOnBytes,
) -> None:
    with_topics(broker)
    broker.join("a", "U")
    await broker.ask(clone(None))
    assert offsets_of(broker, "b") == {"T": {0: 1, 1: 1, 2: 1}, "U": {0: 4, 1: 6}}
    await broker.ask(clone(None, offline=True))
    assert offsets_of(broker, "b")["T"] == {0: 4, 1: 6}


async def test_a_group_without_offsets_leaves_the_other_alone(broker: BrokerOnBytes) -> None:
    with_topics(broker)
    assert (await broker.ask(clone(source="nobody"))).code == ResponseCode.SUCCESS
    assert offsets_of(broker, "b") == {"T": {0: 1, 1: 1, 2: 1}}


@pytest.mark.parametrize(("source", "target", "field"), [("", "b", "srcGroup"), ("a", " ", "destGroup")])
async def test_a_group_without_a_name_is_refused(broker: BrokerOnBytes, source: str, target: str, field: str) -> None:
    answer = await broker.ask(clone(source=source, target=target))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"CloneGroupOffsetRequestHeader.{field}: expected a name, found a blank text"
